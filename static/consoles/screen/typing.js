// Writes strokes as a patient typist does: machines that are busy, or starting, lose keys that come too fast.

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// The presses and releases of a stroke: [code, down, what it writes].
export function* events({ code, text, shift, altgr }) {
  if (shift) yield ["ShiftLeft", true];
  if (altgr) yield ["AltRight", true];
  yield [code, true, text];
  yield [code, false, text];
  if (altgr) yield ["AltRight", false];
  if (shift) yield ["ShiftLeft", false];
}

export class Typist {
  waiting = Promise.resolve();

  constructor(keys) {
    this.keys = keys;
  }

  // Does something once all is written that was asked for before, so that nothing falls between the keys of a stroke.
  next(act) {
    this.waiting = this.waiting.then(act, act);
    return this.waiting;
  }

  // Writes characters, each a list of strokes. `pause`: milliseconds a key. `progress` is told how many are written.
  // Returns that number; it is smaller when `signal` was aborted or the screen closed.
  write(characters, { pause = 30, progress = () => {}, signal } = {}) {
    const { rfb } = this.keys;
    const over = () => signal?.aborted || this.keys.rfb !== rfb || !rfb;
    return this.next(async () => {
      for (const [written, strokes] of characters.entries()) {
        if (over()) return written;
        for (const stroke of strokes) await this.stroke(stroke, pause);
        progress(written + 1);
      }
      return characters.length;
    });
  }

  async stroke(stroke, pause) {
    for (const [code, down, text] of events(stroke)) {
      this.keys.send(code, down, text);
      await sleep(pause / 2);
    }
  }
}
