// A keyboard layout, and which keys write a text in it. keymaps.py says what the table holds.

const FIXED = { " ": "Space", "\n": "Enter", "\t": "Tab" };
const SPACING = { "^": "\u0302", "`": "\u0300", "~": "\u0303" }; // written by a dead key and the space bar
const EXTRA = 1.5; // what a key costs that some keyboards do not have: more than Shift, less than AltGr

let tables = null;

export async function load(address, name) {
  tables ??= fetch(address).then((answer) => {
    if (!answer.ok) throw new Error("The keyboard layouts could not be loaded. Check your connection and try again.");
    return answer.json();
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
    this.strokes = new Map(Object.entries(FIXED).map(([text, code]) => [text, { code, text }]));
    const costs = new Map();
    for (const [code, given] of Object.entries(table)) {
      for (const [level, text] of [...given].entries()) {
        const cost = level + (code.startsWith("Intl") ? EXTRA : 0);
        if (text === " " || costs.get(text) <= cost) continue;
        costs.set(text, cost);
        this.strokes.set(text, { code, text, shift: level % 2 === 1, altgr: level > 1 });
      }
    }
  }

  // The strokes that write one character; undefined if there are none.
  of(character) {
    const direct = this.strokes.get(character);
    if (direct) return [direct];
    const [base, mark, ...more] = character in SPACING ? [" ", SPACING[character]] : character.normalize("NFD");
    const both = [this.strokes.get(mark), this.strokes.get(base)];
    return more.length || both.includes(undefined) ? undefined : both;
  }

  // A text as a list of strokes for each character, and the characters that the layout does not have.
  spell(text) {
    const missing = new Set();
    const characters = [];
    for (const character of text.replaceAll(/\r\n?/g, "\n").normalize("NFC")) {
      const found = this.of(character);
      if (found) characters.push(found);
      else missing.add(character);
    }
    return { characters, missing: [...missing] };
  }
}

// How characters are named to people, also those that cannot be seen.
export function named(characters) {
  const name = (one) => (/[\p{C}\p{Z}\p{M}]/u.test(one) ? `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}` : `“${one}”`);
  const shown = characters.slice(0, 10).map(name).join(", ");
  return characters.length > 10 ? `${shown} and ${characters.length - 10} more` : shown;
}
