// A keyboard layout, and the keys that type a text in it. keymaps.py describes the table.
import { format, texts } from "consoles/texts";

const FIXED_KEYS = { " ": "Space", "\n": "Enter", "\t": "Tab" };
const SPACING_MARKS = { "^": "\u0302", "`": "\u0300", "~": "\u0303" }; // written by a dead key and the space bar
const EXTRA_KEY_COST = 1.5; // of a key that some keyboards lack: more than Shift, less than AltGr
const MAX_NAMES = 10;

let tables = null;

export async function loadLayout(address, name) {
  tables ??= fetch(address).then((response) => {
    if (!response.ok) throw new Error(texts.layouts_not_loaded);
    return response.json();
  });
  try {
    return new Layout((await tables)[name]);
  } catch (error) {
    tables = null;
    throw error;
  }
}

export class Layout {
  constructor(table) {
    this.strokes = new Map(Object.entries(FIXED_KEYS).map(([text, code]) => [text, { code, text }]));
    const costs = new Map();
    for (const [code, characters] of Object.entries(table)) {
      for (const [level, text] of [...characters].entries()) {
        const cost = level + (code.startsWith("Intl") ? EXTRA_KEY_COST : 0);
        if (text === " " || costs.get(text) <= cost) continue;
        costs.set(text, cost);
        this.strokes.set(text, { code, text, shift: level % 2 === 1, altgr: level > 1 });
      }
    }
  }

  // The strokes that type one character; undefined if there are none.
  findStrokes(character) {
    const direct = this.strokes.get(character);
    if (direct) return [direct];
    const [base, mark, ...more] = character in SPACING_MARKS ? [" ", SPACING_MARKS[character]] : character.normalize("NFD");
    const both = [this.strokes.get(mark), this.strokes.get(base)];
    return more.length || both.includes(undefined) ? undefined : both;
  }

  // A text as a list of strokes for each character, and the characters that the layout does not have.
  findTextStrokes(text) {
    const missing = new Set();
    const characters = [];
    for (const character of text.replaceAll(/\r\n?/g, "\n").normalize("NFC")) {
      const strokes = this.findStrokes(character);
      if (strokes) characters.push(strokes);
      else missing.add(character);
    }
    return { characters, missing: [...missing] };
  }
}

// Names characters for people, including invisible ones.
export function formatCharacters(characters) {
  const name = (character) => (/[\p{C}\p{Z}\p{M}]/u.test(character) ? `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}` : `“${character}”`);
  const names = characters.slice(0, MAX_NAMES).map(name).join(", ");
  const count = characters.length - MAX_NAMES;
  return count > 0 ? format(texts.more_characters, { names, count }) : names;
}
