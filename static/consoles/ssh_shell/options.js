// The buttons of the bar, and the options of the terminal.
import * as clipboard from "ssh_shell/clipboard";
import { texts } from "consoles/texts";
import { preferences, savePreference } from "ssh_shell/preferences";
import { openSearch } from "ssh_shell/search";
import { applyTheme, selectVisibleText, setFontSize, setScreenReaderMode, terminal } from "ssh_shell/terminal";

const element = (id) => document.getElementById(id);

/** Runs the action on a click, then gives the focus back to the terminal. */
function onClick(id, action) {
  element(id).addEventListener("click", async () => {
    await action();
    terminal.focus();
  });
}

onClick("copy", () => {
  if (!terminal.hasSelection()) selectVisibleText(); // fingers cannot select in a terminal
  return clipboard.copy();
});
onClick("smaller", () => setFontSize(preferences.size - 1));
onClick("larger", () => setFontSize(preferences.size + 1));
onClick("full", toggleFullScreen);
element("insert").addEventListener("click", clipboard.pasteFromClipboard);
element("search").addEventListener("click", openSearch);

element("full").hidden = !document.fullscreenEnabled;
async function toggleFullScreen() {
  if (document.fullscreenElement) return document.exitFullscreen();
  await document.documentElement.requestFullscreen();
  await navigator.keyboard?.lock(["KeyN", "KeyT", "KeyW"]).catch(() => {}); // with Ctrl they then go to the shell
}
document.addEventListener("fullscreenchange", () => {
  element("full").setAttribute("aria-pressed", Boolean(document.fullscreenElement));
});

element("colors").value = preferences.theme;
element("colors").addEventListener("change", ({ target }) => applyTheme(target.value));
element("copies").checked = preferences.copies;
element("copies").addEventListener("change", ({ target }) => savePreference("copies", target.checked));
element("reader").checked = preferences.reader;
element("reader").addEventListener("change", ({ target }) => setScreenReaderMode(target.checked));
element("options").addEventListener("toggle", ({ newState }) => newState === "closed" && terminal.focus());

/** Shows the host key that the guest presented in this session. */
export function showHostKey(fingerprint) {
  element("host-key").hidden = false;
  element("fingerprint").textContent = fingerprint;
}

/** Shows the panel's round-trip time over this WebSocket: null when the answer is overdue, undefined without a connection. */
export function showPing(milliseconds) {
  element("ping").hidden = milliseconds === undefined;
  element("ping").textContent = milliseconds === null ? texts.no_answer : `${milliseconds} ms`;
}
