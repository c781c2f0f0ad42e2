// Preferences of consoles, stored in this browser. Private windows store nothing.

export function loadPreference(name) {
  try {
    return localStorage.getItem(`panel-console-${name}`);
  } catch {
    return null;
  }
}

export function savePreference(name, value) {
  try {
    localStorage.setItem(`panel-console-${name}`, value);
  } catch {}
}
