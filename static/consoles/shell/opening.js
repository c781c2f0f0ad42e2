// What the page asks the panel: a new session, and what to do about a host key. An answer that is not a success becomes
// a Refusal: `message` is the panel's sentence, `status` is 0 when the panel was not reached.
const page = document.querySelector("#shell").dataset;
const PATIENCE = 90000; // milliseconds; a guest agent that does not answer is given up earlier

export class Refusal extends Error {
  constructor(message, status = 0, reason = null) {
    super(message);
    Object.assign(this, { status, reason });
  }

  /** Whether it may be otherwise in a moment. */
  get passes() {
    return !this.status || this.status === 429 || this.status >= 500;
  }
}

async function ask(path, options) {
  const headers = { Accept: "application/json" };
  const signal = AbortSignal.timeout(PATIENCE);
  const answer = await fetch(path, { headers, signal, ...options }).catch(() => {
    throw new Refusal(navigator.onLine ? "The panel does not answer." : "This device is offline.");
  });
  const told = await answer.json().catch(() => ({}));
  if (answer.ok && !answer.redirected) return told;
  throw new Refusal(told.message ?? `The panel answered with an error (${answer.status}).`, answer.status, told.reason);
}

/** {socket, session_id}. Takes seconds: a key is put into the guest. */
export const newSession = () => ask(page.opening, { method: "POST" });

/** The fingerprints {known, shown}. */
export const hostKeys = () => ask(page.hostKey);

/** Makes the key with this fingerprint the known one, and no other. */
export const trust = (shown) => ask(page.hostKey, { method: "POST", body: new URLSearchParams({ shown }) });
