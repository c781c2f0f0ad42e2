// Copying and pasting. Where the program in the terminal has no bracketed paste, each pasted line would run at once, so
// the page asks first.
import { format, texts } from "consoles/texts";
import { preferences } from "ssh_shell/preferences";
import { terminal } from "ssh_shell/terminal";

const dialog = document.querySelector("#paste");
const text = dialog.querySelector("textarea");
const question = dialog.querySelector("[data-question]");
const container = document.querySelector("#terminal");

export async function copy() {
  if (!terminal.hasSelection()) return;
  if (navigator.clipboard) return navigator.clipboard.writeText(terminal.getSelection());
  terminal.focus(); // pages without TLS have no clipboard API, but can copy the selection
  document.execCommand("copy");
}

/** Pastes without escape characters: they could end the bracketed paste, and the rest would run. */
export function paste(pasted) {
  const plain = pasted.replaceAll("\x1b", "");
  if (terminal.modes.bracketedPasteMode || !/[\r\n]/.test(plain)) return terminal.paste(plain);
  const lines = plain.trimEnd().split(/\r\n|\r|\n/).length;
  openDialog(plain, lines === 1 ? texts.paste_line : format(texts.paste_lines, { lines }));
}

/** Pastes what the browser has in its clipboard. Pages without TLS cannot read it, so the dialog takes the text. */
export async function pasteFromClipboard() {
  const pasted = await navigator.clipboard?.readText().catch(() => null);
  if (pasted) paste(pasted);
  else openDialog("", texts.clipboard_denied);
}

function openDialog(pasted, sentence) {
  question.textContent = sentence;
  text.value = pasted;
  dialog.returnValue = "";
  dialog.showModal();
  (pasted ? dialog.querySelector("[value=yes]") : text).focus();
}

dialog.addEventListener("close", () => {
  if (dialog.returnValue === "yes") terminal.paste(text.value.replaceAll("\x1b", ""));
  text.value = "";
  terminal.focus();
});

container.addEventListener(
  "paste",
  (event) => {
    event.preventDefault();
    event.stopPropagation(); // xterm.js would paste it without asking
    paste(event.clipboardData.getData("text/plain"));
  },
  true,
);

terminal.onSelectionChange(() => preferences.copies && copy());
