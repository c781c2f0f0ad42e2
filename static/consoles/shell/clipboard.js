// Copying and pasting. Where a program does not know that text is pasted (no bracketed paste), each line would run at
// once, so the person is asked.
import { kept } from "shell/kept";
import { terminal } from "shell/terminal";

const asking = document.querySelector("#paste");
const text = asking.querySelector("textarea");
const question = asking.querySelector("[data-question]");
const holder = document.querySelector("#terminal");

export async function copy() {
  if (!terminal.hasSelection()) return;
  if (navigator.clipboard) return navigator.clipboard.writeText(terminal.getSelection());
  terminal.focus(); // browsers give pages without TLS no clipboard, but let them copy what is selected
  document.execCommand("copy");
}

/** Escape characters are left out: they could end the bracket, and what follows would run. */
export function paste(pasted) {
  const plain = pasted.replaceAll("\x1b", "");
  if (terminal.modes.bracketedPasteMode || !/[\r\n]/.test(plain)) return terminal.paste(plain);
  const lines = plain.trimEnd().split(/\r\n|\r|\n/).length;
  const many = lines === 1 ? "a whole line" : `${lines} lines`;
  ask(plain, `This is ${many}. What runs in the terminal takes each line as it arrives.`);
}

/** Without TLS no page reads the clipboard: the window that opens takes the text. */
export async function pasteFromClipboard() {
  const pasted = await navigator.clipboard?.readText().catch(() => null);
  if (pasted) paste(pasted);
  else ask("", "The browser does not let the panel read the clipboard. Paste the text here.");
}

function ask(shown, words) {
  question.textContent = words;
  text.value = shown;
  asking.returnValue = "";
  asking.showModal();
  (shown ? asking.querySelector("[value=yes]") : text).focus();
}

asking.addEventListener("close", () => {
  if (asking.returnValue === "yes") terminal.paste(text.value.replaceAll("\x1b", ""));
  text.value = "";
  terminal.focus();
});

holder.addEventListener(
  "paste",
  (event) => {
    event.preventDefault();
    event.stopPropagation(); // xterm.js would paste it without asking
    paste(event.clipboardData.getData("text/plain"));
  },
  true,
);

terminal.onSelectionChange(() => kept.copies && copy());
