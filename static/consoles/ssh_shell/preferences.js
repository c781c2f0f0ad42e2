// Preferences of shells, stored in this browser. Private windows store nothing.
const STORAGE_KEY = "panel-shell";
const DEFAULTS = { size: 14, theme: "dark", copies: false, reader: false };

function load() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(STORAGE_KEY)) };
  } catch {
    return { ...DEFAULTS };
  }
}

export const preferences = load();

export function savePreference(name, value) {
  preferences[name] = value;
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(preferences));
  } catch {}
}
