// How good the connection is, by what can be measured: the time from a key or click to the next change that arrives
// (the way to the machine and back, and what the machine needs), and what arrives in a second.

const KEPT = 9; // answers of which the middle one is shown
const LONGEST = 2000; // milliseconds: later changes are not answers
const QUIET = 100; // milliseconds without changes, before an input's answer can be told from them

export class Quality {
  constructor(meter, stage) {
    Object.assign(this, { meter, answers: [], bytes: 0, asked: null, heard: 0, socket: null });
    for (const kind of ["keydown", "pointerdown"]) stage.addEventListener(kind, () => this.ask(), { capture: true });
    setInterval(() => this.show(), 1000);
  }

  watch(socket) {
    Object.assign(this, { socket, answers: [], asked: null });
    socket.addEventListener("message", ({ data }) => this.hear(data.byteLength));
  }

  ask() {
    const now = performance.now();
    if (this.asked === null && now - this.heard > QUIET) this.asked = now;
  }

  hear(bytes) {
    const now = performance.now();
    this.bytes += bytes;
    this.heard = now;
    if (this.asked === null) return;
    const took = now - this.asked;
    this.asked = null;
    if (took < LONGEST) this.answers = [...this.answers, took].slice(-KEPT);
  }

  show() {
    if (this.asked !== null && performance.now() - this.asked > LONGEST) this.asked = null;
    const open = this.socket?.readyState === WebSocket.OPEN;
    this.meter.hidden = !open;
    const rate = Math.round(this.bytes / 1024);
    this.bytes = 0;
    if (!open) return;
    const middle = this.answers.toSorted((a, b) => a - b)[this.answers.length >> 1];
    const [short, long] = this.meter.children;
    short.textContent = middle === undefined ? "" : `${Math.round(middle)} ms`;
    long.textContent = `${rate} KiB/s`;
    const look = middle === undefined ? "" : middle < 150 ? "good" : middle < 400 ? "fair" : "bad";
    this.meter.dataset.look = look;
  }
}
