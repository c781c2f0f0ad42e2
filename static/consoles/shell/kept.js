// What the person chose for shells, kept in this browser.
const NAME = "panel-shell";
const FIRST = { size: 14, theme: "dark", copies: false, reader: false };

function read() {
  try {
    return { ...FIRST, ...JSON.parse(localStorage.getItem(NAME)) };
  } catch {
    return { ...FIRST }; // private windows keep nothing
  }
}

export const kept = read();

export function keep(name, value) {
  kept[name] = value;
  try {
    localStorage.setItem(NAME, JSON.stringify(kept));
  } catch {}
}
