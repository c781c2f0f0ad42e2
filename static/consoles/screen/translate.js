// Keys normally reach the machine by their place, and its own layout decides what they write. Who has another keyboard
// than the machine can have sent what is printed on the keys: each character is typed anew in the chosen layout.
import { events } from "screen/typing";

const LIFTED = new Set(["ShiftLeft", "ShiftRight", "AltRight"]); // they choose a character here, and another one there
const SWALLOWED = new Set(["Dead", "CapsLock"]);

export class Translation {
  // `layout` is the Layout to type in while this is on, else null; `lacks` is told of characters that it has not.
  layout = null;

  constructor(stage, { keys, lacks }) {
    Object.assign(this, { keys, lacks, down: new Set() });
    stage.addEventListener("keydown", (event) => this.press(event), { capture: true });
    stage.addEventListener("keyup", ({ code }) => this.down.delete(code), { capture: true });
    stage.addEventListener("focusout", () => this.down.clear());
  }

  press(event) {
    if (LIFTED.has(event.code)) this.down.add(event.code);
    if (!this.layout || !this.mine(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (SWALLOWED.has(event.key)) return;
    const strokes = this.layout.of(event.key);
    if (!strokes) this.lacks(event.key);
    else this.type(strokes);
  }

  // Shortcuts stay what they are: Ctrl-C is a place, not a character.
  mine(event) {
    if (SWALLOWED.has(event.key)) return true;
    const command = (event.ctrlKey || event.altKey) && !event.getModifierState("AltGraph");
    return [...event.key].length === 1 && !command && !event.metaKey && !this.keys.held.size;
  }

  // At once: the person sets the pace, and what is pressed next must come after it.
  type(strokes) {
    for (const code of this.down) this.keys.send(code, false);
    for (const stroke of strokes) {
      for (const [code, down, text] of events(stroke)) this.keys.send(code, down, text);
    }
    for (const code of this.down) this.keys.send(code, true);
  }
}
