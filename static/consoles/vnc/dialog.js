// Asks for confirmation in the page's dialog. Resolves to true for yes.
export function confirm(dialog, question, yes, isDangerous) {
  dialog.querySelector("p").textContent = question;
  const button = dialog.querySelector("[value=yes]");
  button.textContent = yes;
  button.className = `btn btn-${isDangerous ? "danger" : "primary"}`;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
