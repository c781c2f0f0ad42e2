// The power menu: asks for confirmation where the panel wants one, and shows the answer.
import { request } from "consoles/requests";
import { confirm } from "vnc/dialog";

// `button` carries the action as data; `showStatus` shows a sentence.
export async function runPowerAction(button, dialog, showStatus) {
  const { address, question, danger } = button.dataset;
  const label = button.textContent.trim();
  if (question && !(await confirm(dialog, question, label, danger !== undefined))) return;
  showStatus(`${label} …`);
  try {
    showStatus((await request("POST", address)).message);
  } catch (error) {
    showStatus(error.message);
  }
}
