// The guest's clipboard, in both directions. It works only with an agent in the guest.
import { texts } from "consoles/texts";

export function prepareClipboard({ sheet, keys }) {
  const { guest_text: guestText, own_text: ownText } = sheet.querySelector("form").elements;
  const output = sheet.querySelector("output");
  const copyButton = sheet.querySelector("[data-copy-guest-text]");

  sheet.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    keys.rfb?.clipboardPasteFrom(ownText.value);
    output.textContent = keys.rfb ? texts.clipboard_sent : texts.not_connected;
  });
  copyButton.addEventListener("click", async () => {
    guestText.select();
    if (navigator.clipboard) await navigator.clipboard.writeText(guestText.value);
    else document.execCommand("copy"); // pages without TLS have no other way
    output.textContent = texts.copied;
  });

  return (rfb) =>
    rfb.addEventListener("clipboard", ({ detail }) => {
      guestText.value = detail.text;
      copyButton.disabled = false;
      output.textContent = texts.clipboard_received;
    });
}
