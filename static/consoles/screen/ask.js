// Questions to the panel. What goes wrong is an error whose message is a sentence for people.

export class Refused extends Error {
  constructor(message, status, { reason = null, seconds = 0 } = {}) {
    super(message);
    Object.assign(this, { status, reason, seconds });
  }

  // Whether the same question may be answered in a while.
  get passes() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export async function ask(method, address) {
  let answer;
  try {
    answer = await fetch(address, { method, headers: { Accept: "application/json" }, cache: "no-store" });
  } catch {
    throw new Refused("The panel cannot be reached. Check your connection to it.", 0);
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  const message = said.message || "The panel could not do that. Load the page again and repeat it.";
  throw new Refused(message, answer.status, { reason: said.reason, seconds: Number(answer.headers.get("Retry-After")) || 0 });
}
