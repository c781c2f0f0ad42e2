// The terminal: xterm.js with its addons and its look.
import "ssh_shell/csp";
import { FitAddon } from "vendor/addon-fit";
import { Unicode11Addon } from "vendor/addon-unicode11";
import { WebLinksAddon } from "vendor/addon-web-links";
import { Terminal } from "vendor/xterm";
import { lightSystem, getThemeOptions } from "ssh_shell/colors";
import { preferences, savePreference } from "ssh_shell/preferences";

const MIN_FONT_SIZE = 8;
const MAX_FONT_SIZE = 32;
const DEFAULT_FONT_SIZE = 14;
const FONT = 'ui-monospace, "Cascadia Mono", "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

const container = document.querySelector("#terminal");
const linkTarget = document.querySelector("#link-target");

const openLink = (_, address) => window.open(address, "_blank", "noopener,noreferrer");
const showTarget = (_, address) => {
  linkTarget.textContent = address;
  linkTarget.hidden = false;
};
const hideTarget = () => (linkTarget.hidden = true);

export const terminal = new Terminal({
  allowProposedApi: true, // the widths of Unicode 11 need it
  cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
  fontFamily: FONT,
  fontSize: preferences.size,
  linkHandler: { activate: openLink, hover: showTarget, leave: hideTarget },
  macOptionClickForcesSelection: true,
  scrollback: 10000,
  screenReaderMode: preferences.reader,
  ...getThemeOptions(preferences.theme),
});

const fitAddon = new FitAddon();
terminal.loadAddon(fitAddon);
terminal.loadAddon(new Unicode11Addon());
terminal.loadAddon(new WebLinksAddon(openLink, { hover: showTarget, leave: hideTarget }));
terminal.unicode.activeVersion = "11";
terminal.open(container);
new ResizeObserver(() => fitAddon.fit()).observe(container);

/** Sets the font size in pixels. */
export function setFontSize(size = DEFAULT_FONT_SIZE) {
  savePreference("size", Math.min(Math.max(size, MIN_FONT_SIZE), MAX_FONT_SIZE));
  terminal.options.fontSize = preferences.size;
  fitAddon.fit();
}

export function applyTheme(choice = preferences.theme) {
  savePreference("theme", choice);
  Object.assign(terminal.options, getThemeOptions(choice));
  container.style.backgroundColor = terminal.options.theme.background;
}
lightSystem.addEventListener("change", () => applyTheme());

export function setScreenReaderMode(isOn) {
  savePreference("reader", isOn);
  terminal.options.screenReaderMode = isOn;
}

export function selectVisibleText() {
  const { viewportY } = terminal.buffer.active;
  terminal.selectLines(viewportY, viewportY + terminal.rows - 1);
}

/** Undoes what the previous shell left switched on: alternate screen, mouse, hidden cursor. */
export function resetTerminal(line) {
  terminal.write("\x1b[!p\x1b[?1049l\x1b[?9;1000;1002;1003;1004;1005;1006;2004l\x1b[?25h\x1b[0m");
  const { cursorX, cursorY } = terminal.buffer.normal;
  if (cursorX || cursorY) terminal.write(`\r\n\x1b[2m── ${line} ──\x1b[0m\r\n`);
}
