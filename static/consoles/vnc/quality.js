// The quality of the connection: the time from a key or click to the next update of the screen (which includes the
// guest's own time), and the data that arrives in a second.

const MAX_SAMPLES = 9; // the median is shown
const MAX_LATENCY_MILLISECONDS = 2000; // later updates have other causes
const QUIET_MILLISECONDS = 100; // without updates, before one can be attributed to an input

export class Quality {
  constructor(meter, stage) {
    Object.assign(this, { meter, samples: [], bytes: 0, inputAt: null, updateAt: 0, socket: null });
    for (const kind of ["keydown", "pointerdown"]) stage.addEventListener(kind, () => this.onInput(), { capture: true });
    setInterval(() => this.show(), 1000);
  }

  watch(socket) {
    Object.assign(this, { socket, samples: [], inputAt: null });
    socket.addEventListener("message", ({ data }) => this.onData(data.byteLength));
  }

  onInput() {
    const now = performance.now();
    if (this.inputAt === null && now - this.updateAt > QUIET_MILLISECONDS) this.inputAt = now;
  }

  onData(bytes) {
    const now = performance.now();
    this.bytes += bytes;
    this.updateAt = now;
    if (this.inputAt === null) return;
    const latency = now - this.inputAt;
    this.inputAt = null;
    if (latency < MAX_LATENCY_MILLISECONDS) this.samples = [...this.samples, latency].slice(-MAX_SAMPLES);
  }

  show() {
    if (this.inputAt !== null && performance.now() - this.inputAt > MAX_LATENCY_MILLISECONDS) this.inputAt = null;
    const open = this.socket?.readyState === WebSocket.OPEN;
    this.meter.hidden = !open;
    const rate = Math.round(this.bytes / 1024);
    this.bytes = 0;
    if (!open) return;
    const median = this.samples.toSorted((a, b) => a - b)[this.samples.length >> 1];
    const [latency, throughput] = this.meter.children;
    latency.textContent = median === undefined ? "" : `${Math.round(median)} ms`;
    throughput.textContent = `${rate} KiB/s`;
    const level = median === undefined ? "" : median < 150 ? "good" : median < 400 ? "fair" : "bad";
    this.meter.dataset.level = level;
  }
}
