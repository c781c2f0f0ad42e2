// One session: a WebSocket with the sub-protocol `panel-shell`. Binary messages are the terminal's bytes, both ways;
// texts are JSON objects with a `type`.
import { terminal } from "shell/terminal";

const BEHIND = 32768; // bytes drawn until the panel hears of it: it holds back a guest that prints faster than that
const PIECE = 65536; // bytes the panel takes at once; a clipboard may hold more
const ASK = 4000; // milliseconds from one ping to the next

const encoder = new TextEncoder();

/**
 * Connects, and calls `hear` with what happens: {type: "ready", fingerprint}, {type: "ping", milliseconds} (null when
 * the answer is overdue), and at the end {type: "closed", reason, message, exit}: `reason` is null when the connection
 * was lost, `exit` is undefined when the shell did not end and null when it was killed.
 */
export function connect(path, hear) {
  const address = new URL(path, location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = new WebSocket(address, "panel-shell");
  socket.binaryType = "arraybuffer";
  let drawn = 0;
  let answered = 0;
  let ended = { reason: null, message: null };
  let exit;

  const say = (message) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));

  function draw(bytes) {
    terminal.write(bytes, () => {
      drawn += bytes.length;
      if (drawn < BEHIND) return;
      say({ type: "seen", bytes: drawn });
      drawn = 0;
    });
  }

  function measure() {
    if (document.hidden) return (answered = 0);
    const now = performance.now();
    if (answered && now - answered > 2.5 * ASK) hear({ type: "ping", milliseconds: null });
    say({ type: "ping", at: now });
  }

  const told = {
    ready: (message) => {
      hear(message);
      measure();
    },
    pong: ({ at }) => {
      answered = performance.now();
      hear({ type: "ping", milliseconds: Math.round(answered - at) });
    },
    exit: (message) => (exit = message.code),
    ended: (message) => (ended = message),
  };

  socket.onmessage = ({ data }) => {
    if (typeof data !== "string") return draw(new Uint8Array(data));
    const message = JSON.parse(data);
    told[message.type]?.(message);
  };
  socket.onclose = () => {
    clearInterval(pings);
    hear({ type: "closed", reason: ended.reason, message: ended.message, exit });
  };
  const pings = setInterval(measure, ASK);

  return {
    type(text) {
      const bytes = typeof text === "string" ? encoder.encode(text) : text;
      if (socket.readyState !== WebSocket.OPEN) return;
      for (let start = 0; start < bytes.length; start += PIECE) socket.send(bytes.subarray(start, start + PIECE));
    },
    resize: () => say({ type: "resize", columns: terminal.cols, rows: terminal.rows }),
    close: () => socket.close(1000),
  };
}
