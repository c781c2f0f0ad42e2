// What the browser remembers of a machine's console. A browser that keeps nothing is no reason to fail.

export function recall(name) {
  try {
    return localStorage.getItem(`panel-console-${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`panel-console-${name}`, value);
  } catch {
    // it is asked again the next time
  }
}
