// The power menu: asks where the panel says that a question is due, and tells what came of it.
import { ask } from "screen/ask";

// Asks in a dialog; true for yes.
export function confirmed(dialog, question, yes, danger) {
  dialog.querySelector("p").textContent = question;
  const button = dialog.querySelector("[value=yes]");
  button.textContent = yes;
  button.className = `btn btn-${danger ? "danger" : "primary"}`;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

// `button` carries the action as data; `say` shows a sentence.
export async function power(button, dialog, say) {
  const { address, question, danger } = button.dataset;
  const label = button.textContent.trim();
  if (question && !(await confirmed(dialog, question, label, danger !== undefined))) return;
  say(`${label} …`);
  try {
    say((await ask("POST", address)).message);
  } catch (refusal) {
    say(refusal.message, true);
  }
}
