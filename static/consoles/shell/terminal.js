// The terminal: xterm.js with its addons, and how it looks.
import "shell/policy";
import { FitAddon } from "vendor/addon-fit";
import { Unicode11Addon } from "vendor/addon-unicode11";
import { WebLinksAddon } from "vendor/addon-web-links";
import { Terminal } from "vendor/xterm";
import { colours, system } from "shell/colours";
import { keep, kept } from "shell/kept";

const SMALLEST = 8;
const LARGEST = 32;
const USUAL = 14;
const FONT = 'ui-monospace, "Cascadia Mono", "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

const holder = document.querySelector("#terminal");
const aim = document.querySelector("#aim");

const follow = (_, address) => window.open(address, "_blank", "noopener,noreferrer");
const show = (_, address) => {
  aim.textContent = address;
  aim.hidden = false;
};
const hide = () => (aim.hidden = true);

export const terminal = new Terminal({
  allowProposedApi: true, // the widths of Unicode 11 need it
  cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
  fontFamily: FONT,
  fontSize: kept.size,
  linkHandler: { activate: follow, hover: show, leave: hide },
  macOptionClickForcesSelection: true,
  scrollback: 10000,
  screenReaderMode: kept.reader,
  ...colours(kept.theme),
});

const fitting = new FitAddon();
terminal.loadAddon(fitting);
terminal.loadAddon(new Unicode11Addon());
terminal.loadAddon(new WebLinksAddon(follow, { hover: show, leave: hide }));
terminal.unicode.activeVersion = "11";
terminal.open(holder);
new ResizeObserver(() => fitting.fit()).observe(holder);

/** Sets the size of the letters in pixels; without one, the usual. */
export function resize(size = USUAL) {
  keep("size", Math.min(Math.max(size, SMALLEST), LARGEST));
  terminal.options.fontSize = kept.size;
  fitting.fit();
}

export function paint(choice = kept.theme) {
  keep("theme", choice);
  Object.assign(terminal.options, colours(choice));
  holder.style.backgroundColor = terminal.options.theme.background;
}
system.addEventListener("change", () => paint());

export function read(aloud) {
  keep("reader", aloud);
  terminal.options.screenReaderMode = aloud;
}

export function selectWhatIsShown() {
  const { viewportY } = terminal.buffer.active;
  terminal.selectLines(viewportY, viewportY + terminal.rows - 1);
}

/** Before another shell: what the last one left switched on (another screen, the mouse, a hidden cursor) is undone. */
export function begin(line) {
  terminal.write("\x1b[!p\x1b[?1049l\x1b[?9;1000;1002;1003;1004;1005;1006;2004l\x1b[?25h\x1b[0m");
  const { cursorX, cursorY } = terminal.buffer.normal;
  if (cursorX || cursorY) terminal.write(`\r\n\x1b[2m── ${line} ──\x1b[0m\r\n`);
}
