// Keys normally reach the guest by their position, and its own layout decides what they type. For people whose keyboard
// has another layout than the guest, each character can be typed again in the selected layout instead.
import { keyEvents } from "vnc/typing";

const LEVEL_KEYS = new Set(["ShiftLeft", "ShiftRight", "AltRight"]); // released while a character is typed
const IGNORED_KEYS = new Set(["Dead", "CapsLock"]);

export class KeyTranslation {
  // `layout` is the Layout to type in while this is on, else null; `onMissing` gets the characters that it lacks.
  layout = null;

  constructor(stage, { keys, onMissing }) {
    Object.assign(this, { keys, onMissing, down: new Set() });
    stage.addEventListener("keydown", (event) => this.press(event), { capture: true });
    stage.addEventListener("keyup", ({ code }) => this.down.delete(code), { capture: true });
    stage.addEventListener("focusout", () => this.down.clear());
  }

  press(event) {
    if (LEVEL_KEYS.has(event.code)) this.down.add(event.code);
    if (!this.layout || !this.isCharacter(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (IGNORED_KEYS.has(event.key)) return;
    const strokes = this.layout.findStrokes(event.key);
    if (!strokes) this.onMissing(event.key);
    else this.type(strokes);
  }

  // Shortcuts are sent by position: Ctrl-C is no character.
  isCharacter(event) {
    if (IGNORED_KEYS.has(event.key)) return true;
    const isCommand = (event.ctrlKey || event.altKey) && !event.getModifierState("AltGraph");
    return [...event.key].length === 1 && !isCommand && !event.metaKey && !this.keys.held.size;
  }

  // Without pauses, because the keys that follow must be sent after it.
  type(strokes) {
    for (const code of this.down) this.keys.send(code, false);
    for (const stroke of strokes) {
      for (const [code, down, text] of keyEvents(stroke)) this.keys.send(code, down, text);
    }
    for (const code of this.down) this.keys.send(code, true);
  }
}
