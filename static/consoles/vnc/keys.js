// Keys of the guest's keyboard by their position (KeyboardEvent.code), and modifiers that stay down for the next key.

const KEYSYMS = {
  Backspace: 0xff08, Tab: 0xff09, Enter: 0xff0d, Pause: 0xff13, Escape: 0xff1b, Home: 0xff50, ArrowLeft: 0xff51,
  ArrowUp: 0xff52, ArrowRight: 0xff53, ArrowDown: 0xff54, PageUp: 0xff55, PageDown: 0xff56, End: 0xff57,
  PrintScreen: 0xff61, Insert: 0xff63, ContextMenu: 0xff67, ShiftLeft: 0xffe1, ControlLeft: 0xffe3, AltLeft: 0xffe9,
  AltRight: 0xfe03, MetaLeft: 0xffeb, Delete: 0xffff, Space: 0x20,
};

// The X keysym of a key, for servers that take no positions. `text` is what the key types, where it has no name.
export function keysym(code, text = "") {
  if (code in KEYSYMS) return KEYSYMS[code];
  const [, functionKey] = code.match(/^F(\d+)$/) ?? [];
  if (functionKey) return 0xffbd + Number(functionKey);
  const codePoint = (text || code.replace(/^(Key|Digit)/, "").toLowerCase()).codePointAt(0);
  return codePoint < 0x100 ? codePoint : 0x1000000 + codePoint;
}

export class Keys extends EventTarget {
  held = new Set();
  rfb = null;

  send(code, down, text) {
    this.rfb?.sendKey(keysym(code, text), code, down);
  }

  // Holds a modifier until the next key, or releases it.
  toggle(code) {
    const down = !this.held.has(code);
    if (down) this.held.add(code);
    else this.held.delete(code);
    this.send(code, down);
    this.dispatchEvent(new Event("held"));
  }

  release() {
    for (const code of [...this.held]) this.toggle(code);
  }

  // One key, with the modifiers that are held.
  press(code) {
    this.send(code, true);
    this.send(code, false);
    this.release();
  }

  // Several keys at once, like ["ControlLeft", "AltLeft", "Delete"].
  chord(codes) {
    for (const code of codes) this.send(code, true);
    for (const code of codes.toReversed()) this.send(code, false);
    this.release();
  }
}
