// Requests to the panel. A failure is a RequestError whose message is a sentence for people.
import { format, texts } from "consoles/texts";

const TIMEOUT_MILLISECONDS = 90000; // longer than the panel waits for a guest agent

export class RequestError extends Error {
  // `status` is 0 when the panel was not reached.
  constructor(message, status = 0, { reason = null, retryAfterSeconds = 0 } = {}) {
    super(message);
    Object.assign(this, { status, reason, retryAfterSeconds });
  }

  // Whether the same request may succeed later.
  get isTemporary() {
    return !this.status || this.status === 429 || this.status >= 500;
  }
}

export async function request(method, path, body) {
  const headers = { Accept: "application/json" };
  const signal = AbortSignal.timeout(TIMEOUT_MILLISECONDS);
  const response = await fetch(path, { method, body, headers, signal, cache: "no-store" }).catch(() => {
    throw new RequestError(navigator.onLine ? texts.unreachable : texts.offline);
  });
  const answer = await response.json().catch(() => ({}));
  if (response.ok && !response.redirected) return answer;
  const message = answer.message || format(texts.request_failed, { status: response.status });
  const retryAfterSeconds = Number(response.headers.get("Retry-After")) || 0;
  throw new RequestError(message, response.status, { reason: answer.reason, retryAfterSeconds });
}
