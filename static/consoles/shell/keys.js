// Keys: what the page itself takes from the keyboard, and the keys that a phone does not have.
import * as clipboard from "shell/clipboard";
import { kept } from "shell/kept";
import { open as find } from "shell/search";
import { resize, terminal } from "shell/terminal";

const bar = document.querySelector("#keys");
const control = bar.querySelector("[data-control]");

// Ctrl-Shift with a letter is the page's, plain Ctrl is the shell's. Ctrl-Shift-V is left to the browser, which then
// pastes without asking for a permission.
const WITH_SHIFT = { c: clipboard.copy, f: find, v: null };
const larger = () => resize(kept.size + 1);
const WITH_CONTROL = { "+": larger, "=": larger, "-": () => resize(kept.size - 1), 0: () => resize() };
const LEAVE = "F6"; // Tab belongs to the shell, so the keyboard needs another way out of it

terminal.attachCustomKeyEventHandler((event) => {
  const command = event.ctrlKey || event.metaKey;
  if (!command || event.altKey) return true;
  if (event.key === LEAVE) return act(event, () => document.querySelector(".bar .tool").focus());
  const key = event.key.toLowerCase();
  if (key in WITH_CONTROL) return act(event, WITH_CONTROL[key]);
  if (event.shiftKey && key in WITH_SHIFT) return act(event, WITH_SHIFT[key]);
  return true;
});

/** False: xterm.js leaves the key alone. */
function act(event, action) {
  if (!action) return false;
  event.preventDefault();
  if (event.type === "keydown") action();
  return false;
}

let held = false;
function hold(is) {
  held = is;
  control.setAttribute("aria-pressed", is);
}

/** What was typed, as it goes to the shell: after Ctrl of the bar a letter is its control character. */
export function typed(text) {
  if (!held) return text;
  const letter = /^[a-z@[\\\]^_ ]$/i.test(text) && String.fromCharCode(text.charCodeAt(0) & 31);
  const made = letter || text.replace(/^\x1b[[O]([A-DHF])$/, "\x1b[1;5$1");
  if (made !== text) hold(false); // what the terminal answers by itself is no key
  return made;
}

const KEYS = { Escape: "\x1b", Tab: "\t", "|": "|", "/": "/", "-": "-", "~": "~" };
const ARROWS = { Up: "A", Down: "B", Right: "C", Left: "D", Home: "H", End: "F" };

function sequence(key) {
  if (key in KEYS) return KEYS[key];
  return `\x1b${terminal.modes.applicationCursorKeysMode ? "O" : "["}${ARROWS[key]}`;
}

// Where the keyboard of a phone covers the page instead of making it smaller, the page makes room itself.
visualViewport.addEventListener("resize", () => {
  if (visualViewport.scale === 1) document.body.style.height = `${visualViewport.height}px`;
});

bar.addEventListener("pointerdown", (event) => event.preventDefault()); // the keyboard of a phone stays open
bar.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button === control) hold(!held);
  else terminal.input(sequence(button.dataset.key));
});
