// The machine's clipboard: what it copied, and what we put there. It takes part only with an agent inside.

export function prepareClipboard({ sheet, keys }) {
  const { theirs, ours } = sheet.querySelector("form").elements;
  const said = sheet.querySelector("output");
  const copy = sheet.querySelector("[data-copy-theirs]");

  sheet.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    keys.rfb?.clipboardPasteFrom(ours.value);
    said.textContent = keys.rfb ? "Sent to the machine. Paste it there." : "The console is not connected.";
  });
  copy.addEventListener("click", async () => {
    theirs.select();
    if (navigator.clipboard) await navigator.clipboard.writeText(theirs.value);
    else document.execCommand("copy"); // pages without TLS have no other way
    said.textContent = "Copied.";
  });

  return (rfb) =>
    rfb.addEventListener("clipboard", ({ detail }) => {
      theirs.value = detail.text;
      copy.disabled = false;
      said.textContent = "The machine copied something.";
    });
}
