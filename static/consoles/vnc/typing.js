// Types slowly, because guests that are busy or starting lose keys that arrive too fast.

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// The presses and releases of a stroke: [code, down, text].
export function* keyEvents({ code, text, shift, altgr }) {
  if (shift) yield ["ShiftLeft", true];
  if (altgr) yield ["AltRight", true];
  yield [code, true, text];
  yield [code, false, text];
  if (altgr) yield ["AltRight", false];
  if (shift) yield ["ShiftLeft", false];
}

export class TypingQueue {
  queue = Promise.resolve();

  constructor(keys) {
    this.keys = keys;
  }

  // Runs an action after everything that was queued, so that nothing comes between the keys of a stroke.
  next(action) {
    this.queue = this.queue.then(action, action);
    return this.queue;
  }

  // Types characters, each a list of strokes. `pause`: milliseconds a key. `progress` gets the number typed so far.
  // Returns that number, which is smaller when `signal` was aborted or the console closed.
  write(characters, { pause = 30, progress = () => {}, signal } = {}) {
    const { rfb } = this.keys;
    const isOver = () => signal?.aborted || this.keys.rfb !== rfb || !rfb;
    return this.next(async () => {
      for (const [typed, strokes] of characters.entries()) {
        if (isOver()) return typed;
        for (const stroke of strokes) await this.typeStroke(stroke, pause);
        progress(typed + 1);
      }
      return characters.length;
    });
  }

  async typeStroke(stroke, pause) {
    for (const [code, down, text] of keyEvents(stroke)) {
      this.keys.send(code, down, text);
      await sleep(pause / 2);
    }
  }
}
