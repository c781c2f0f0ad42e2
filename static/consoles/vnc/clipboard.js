// The guest's clipboard, in both directions. It works only with an agent in the guest.
import { texts } from "consoles/texts";

export function prepareClipboard({ sheet, keys }) {
  const { theirs, ours } = sheet.querySelector("form").elements;
  const output = sheet.querySelector("output");
  const copyButton = sheet.querySelector("[data-copy-theirs]");

  sheet.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    keys.rfb?.clipboardPasteFrom(ours.value);
    output.textContent = keys.rfb ? texts.clipboard_sent : texts.not_connected;
  });
  copyButton.addEventListener("click", async () => {
    theirs.select();
    if (navigator.clipboard) await navigator.clipboard.writeText(theirs.value);
    else document.execCommand("copy"); // pages without TLS have no other way
    output.textContent = texts.copied;
  });

  return (rfb) =>
    rfb.addEventListener("clipboard", ({ detail }) => {
      theirs.value = detail.text;
      copyButton.disabled = false;
      output.textContent = texts.clipboard_received;
    });
}
