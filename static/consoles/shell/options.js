// The buttons of the bar, and the options of the terminal.
import * as clipboard from "shell/clipboard";
import { keep, kept } from "shell/kept";
import { open as find } from "shell/search";
import { paint, read, resize, selectWhatIsShown, terminal } from "shell/terminal";

const element = (id) => document.getElementById(id);

/** A click does it, and the keyboard belongs to the terminal again. */
function button(id, action) {
  element(id).addEventListener("click", async () => {
    await action();
    terminal.focus();
  });
}

button("copy", () => {
  if (!terminal.hasSelection()) selectWhatIsShown(); // fingers cannot select in a terminal
  return clipboard.copy();
});
button("smaller", () => resize(kept.size - 1));
button("larger", () => resize(kept.size + 1));
button("full", full);
element("insert").addEventListener("click", clipboard.pasteFromClipboard);
element("search").addEventListener("click", find);

element("full").hidden = !document.fullscreenEnabled;
async function full() {
  if (document.fullscreenElement) return document.exitFullscreen();
  await document.documentElement.requestFullscreen();
  await navigator.keyboard?.lock(["KeyN", "KeyT", "KeyW"]).catch(() => {}); // with Ctrl they are the shell's then
}
document.addEventListener("fullscreenchange", () => {
  element("full").setAttribute("aria-pressed", Boolean(document.fullscreenElement));
});

element("colours").value = kept.theme;
element("colours").addEventListener("change", ({ target }) => paint(target.value));
element("copies").checked = kept.copies;
element("copies").addEventListener("change", ({ target }) => keep("copies", target.checked));
element("reader").checked = kept.reader;
element("reader").addEventListener("change", ({ target }) => read(target.checked));
element("options").addEventListener("toggle", ({ newState }) => newState === "closed" && terminal.focus());

/** The host key that this session's machine has shown. */
export function showHostKey(fingerprint) {
  element("host-key").hidden = false;
  element("fingerprint").textContent = fingerprint;
}

/** How long the panel takes to answer over this WebSocket. null: longer than it should. Nothing: there is none. */
export function showPing(milliseconds) {
  element("ping").hidden = milliseconds === undefined;
  element("ping").textContent = milliseconds === null ? "No answer" : `${milliseconds} ms`;
}
