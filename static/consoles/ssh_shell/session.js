// One session: a WebSocket with the sub-protocol `panel-shell`. Binary messages are the terminal's bytes in both
// directions, text messages are JSON objects with a `type`.
import { terminal } from "ssh_shell/terminal";

const ACKNOWLEDGED_BYTES = 32768; // drawn bytes are acknowledged in such steps, so that the panel can slow a guest down
const MAX_MESSAGE_BYTES = 65536; // what the panel takes at once; a clipboard may hold more
const PING_INTERVAL_MILLISECONDS = 4000;
const OVERDUE_MILLISECONDS = 10000; // without an answer to a ping

const encoder = new TextEncoder();

/**
 * Connects, and calls `onEvent` with events: {type: "ready", fingerprint}, {type: "ping", milliseconds} (null when
 * the answer is overdue), and at the end {type: "closed", reason, message, exit}: `reason` is null when the connection
 * was lost, `exit` is undefined when the shell did not end and null when it was killed.
 */
export function connect(path, onEvent) {
  const address = new URL(path, location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = new WebSocket(address, "panel-shell");
  socket.binaryType = "arraybuffer";
  let drawnBytes = 0;
  let answeredAt = 0;
  let end = { reason: null, message: null };
  let exit;

  const send = (message) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));

  function draw(bytes) {
    terminal.write(bytes, () => {
      drawnBytes += bytes.length;
      if (drawnBytes < ACKNOWLEDGED_BYTES) return;
      send({ type: "seen", bytes: drawnBytes });
      drawnBytes = 0;
    });
  }

  function sendPing() {
    if (document.hidden) return (answeredAt = 0);
    const now = performance.now();
    if (answeredAt && now - answeredAt > OVERDUE_MILLISECONDS) onEvent({ type: "ping", milliseconds: null });
    send({ type: "ping", at: now });
  }

  const handlers = {
    ready: (message) => {
      onEvent(message);
      sendPing();
    },
    pong: ({ at }) => {
      answeredAt = performance.now();
      onEvent({ type: "ping", milliseconds: Math.round(answeredAt - at) });
    },
    exit: (message) => (exit = message.code),
    ended: (message) => (end = message),
  };

  socket.onmessage = ({ data }) => {
    if (typeof data !== "string") return draw(new Uint8Array(data));
    const message = JSON.parse(data);
    handlers[message.type]?.(message);
  };
  socket.onclose = () => {
    clearInterval(pings);
    onEvent({ type: "closed", reason: end.reason, message: end.message, exit });
  };
  const pings = setInterval(sendPing, PING_INTERVAL_MILLISECONDS);

  return {
    type(text) {
      const bytes = typeof text === "string" ? encoder.encode(text) : text;
      if (socket.readyState !== WebSocket.OPEN) return;
      for (let start = 0; start < bytes.length; start += MAX_MESSAGE_BYTES) socket.send(bytes.subarray(start, start + MAX_MESSAGE_BYTES));
    },
    resize: () => send({ type: "resize", columns: terminal.cols, rows: terminal.rows }),
    close: () => socket.close(1000),
  };
}
