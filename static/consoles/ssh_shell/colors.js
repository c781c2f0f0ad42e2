// The terminal's colors. Programs expect a dark background; on a light one xterm.js darkens what could not be read.
const DARK = {
  background: "#10141a",
  foreground: "#e3e7ee",
  cursor: "#e3e7ee",
  cursorAccent: "#10141a",
  selectionBackground: "#3a5f9e",
  black: "#4b5566",
  red: "#ff7b72",
  green: "#6cc26f",
  yellow: "#d9a43b",
  blue: "#6ea8fe",
  magenta: "#d08bf0",
  cyan: "#4fc3d4",
  white: "#c8ced8",
  brightBlack: "#8b94a3",
  brightRed: "#ffa198",
  brightGreen: "#8fdc92",
  brightYellow: "#f0c566",
  brightBlue: "#9cc4ff",
  brightMagenta: "#e2b3fa",
  brightCyan: "#83dce8",
  brightWhite: "#ffffff",
};

const LIGHT = {
  background: "#ffffff",
  foreground: "#1b2330",
  cursor: "#1b2330",
  cursorAccent: "#ffffff",
  selectionBackground: "#b9d3fb",
  black: "#1b2330",
  red: "#b3261e",
  green: "#1a7431",
  yellow: "#8a5a00",
  blue: "#1c5fd4",
  magenta: "#8e2ca8",
  cyan: "#0b6e7d",
  white: "#5c6675",
  brightBlack: "#6a7482",
  brightRed: "#d0372d",
  brightGreen: "#218a3e",
  brightYellow: "#9c6a00",
  brightBlue: "#2f74ea",
  brightMagenta: "#a63fc2",
  brightCyan: "#0f8091",
  brightWhite: "#3a4452",
};

const MIN_CONTRAST_RATIO = 4.5; // of WCAG

export const lightSystem = matchMedia("(prefers-color-scheme: light)");

/** The options of xterm.js for "dark", "light" or "system". */
export function getThemeOptions(choice) {
  const isLight = choice === "light" || (choice === "system" && lightSystem.matches);
  return { theme: isLight ? LIGHT : DARK, minimumContrastRatio: isLight ? MIN_CONTRAST_RATIO : 1 };
}
