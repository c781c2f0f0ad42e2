// Keys: the page's own shortcuts, and on-screen keys that a phone lacks.
import * as clipboard from "ssh_shell/clipboard";
import { preferences } from "ssh_shell/preferences";
import { openSearch } from "ssh_shell/search";
import { setFontSize, terminal } from "ssh_shell/terminal";

const bar = document.querySelector("#keys");
const control = bar.querySelector("[data-control]");

// Ctrl-Shift with a letter belongs to the page, plain Ctrl to the shell. Ctrl-Shift-V is left to the browser, which then
// pastes without asking for a permission.
const SHIFT_SHORTCUTS = { c: clipboard.copy, f: openSearch, v: null };
const enlarge = () => setFontSize(preferences.size + 1);
const shrink = () => setFontSize(preferences.size - 1);
const CONTROL_SHORTCUTS = { "+": enlarge, "=": enlarge, "-": shrink, 0: () => setFontSize() };
const LEAVE_KEY = "F6"; // Tab belongs to the shell, so another key must leave it

terminal.attachCustomKeyEventHandler((event) => {
  const isCommand = event.ctrlKey || event.metaKey;
  if (!isCommand || event.altKey) return true;
  if (event.key === LEAVE_KEY) return runShortcut(event, () => document.querySelector(".bar .tool").focus());
  const key = event.key.toLowerCase();
  if (key in CONTROL_SHORTCUTS) return runShortcut(event, CONTROL_SHORTCUTS[key]);
  if (event.shiftKey && key in SHIFT_SHORTCUTS) return runShortcut(event, SHIFT_SHORTCUTS[key]);
  return true;
});

/** Returns false, so that xterm.js ignores the key. */
function runShortcut(event, action) {
  if (!action) return false;
  event.preventDefault();
  if (event.type === "keydown") action();
  return false;
}

let isControlHeld = false;
function holdControl(isHeld) {
  isControlHeld = isHeld;
  control.setAttribute("aria-pressed", isHeld);
}

/** Returns what goes to the shell: after the on-screen Ctrl a letter becomes its control character. */
export function applyControl(text) {
  if (!isControlHeld) return text;
  const letter = /^[a-z@[\\\]^_ ]$/i.test(text) && String.fromCharCode(text.charCodeAt(0) & 31);
  const sequence = letter || text.replace(/^\x1b[[O]([A-DHF])$/, "\x1b[1;5$1");
  if (sequence !== text) holdControl(false); // an answer of the terminal itself is no key
  return sequence;
}

const KEY_SEQUENCES = { Escape: "\x1b", Tab: "\t", "|": "|", "/": "/", "-": "-", "~": "~" };
const CURSOR_KEYS = { Up: "A", Down: "B", Right: "C", Left: "D", Home: "H", End: "F" };

function getKeySequence(key) {
  if (key in KEY_SEQUENCES) return KEY_SEQUENCES[key];
  return `\x1b${terminal.modes.applicationCursorKeysMode ? "O" : "["}${CURSOR_KEYS[key]}`;
}

// The keyboard of some phones covers the page instead of resizing it, so the page resizes itself.
visualViewport.addEventListener("resize", () => {
  if (visualViewport.scale === 1) document.body.style.height = `${visualViewport.height}px`;
});

bar.addEventListener("pointerdown", (event) => event.preventDefault()); // the keyboard of a phone stays open
bar.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button === control) holdControl(!isControlHeld);
  else terminal.input(getKeySequence(button.dataset.key));
});
