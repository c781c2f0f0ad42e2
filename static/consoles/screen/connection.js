// One console after another: opens the session's WebSocket, says why it closed, and opens it again with a new session.
import RFB from "novnc/rfb.js";
import { ask } from "screen/ask";

// Why a console closed, where trying again makes sense without being asked.
const PASSING = new Set([
  null, undefined, "left", "vanished", "finished", "restarting", "unreachable", "refused", "lost", "stuck", "failed",
]);

const PAUSES = [1, 2, 4, 8, 15, 30, 30, 60]; // seconds before each further attempt
const STEADY = 10; // seconds after which an open console counts as a good one
const LOOK = 4; // seconds between two looks at a machine that is off
const NOT_TAKEN = "The panel did not take the connection.";

export class Connection extends EventTarget {
  // `session` has the addresses `socket`, `state` and `again`, and `password`; `view` is the element the screen fills.
  constructor(view, session) {
    super();
    Object.assign(this, { view, session, rfb: null, attempts: 0, timer: null });
  }

  // Phases: connecting, open, waiting (tries again by itself), off (the machine is), closed, sign_in.
  tell(phase, sentence) {
    this.phase = phase;
    this.dispatchEvent(new CustomEvent("phase", { detail: { phase, sentence } }));
  }

  open() {
    clearTimeout(this.timer);
    this.tell("connecting", "Connecting …");
    const socket = new WebSocket(new URL(this.session.socket, location.href.replace(/^http/, "ws")), "binary");
    let said = "";
    let opened = 0;
    socket.addEventListener("close", ({ reason }) => (said ||= reason));
    const rfb = new RFB(this.view, socket, { credentials: { password: this.session.password } });
    rfb.addEventListener("securityfailure", ({ detail }) => (said ||= detail.reason));
    rfb.addEventListener("connect", () => {
      opened = Date.now();
      this.dispatchEvent(new CustomEvent("screen", { detail: { rfb, socket } }));
      this.tell("open", "Connected");
    });
    rfb.addEventListener("disconnect", () => {
      if (opened && Date.now() - opened > STEADY * 1000) this.attempts = 0;
      this.rfb = null;
      this.closed(said);
    });
    this.rfb = rfb;
  }

  async closed(said) {
    this.tell("connecting", said || "The connection was lost.");
    const told = await this.why(said);
    const sentence = said || told.message || (told.state === "fresh" ? NOT_TAKEN : "The connection to the panel was lost.");
    if (told.power === "off") this.waitForPower(sentence);
    else if (PASSING.has(told.reason)) this.later(sentence);
    else this.tell("closed", sentence);
  }

  // What the panel knows of the end; it learns of it a moment after the browser.
  async why(said) {
    for (let patience = 3; ; patience -= 1) {
      const told = await ask("GET", this.session.state).catch(() => ({ state: "unknown" }));
      if (told.state !== "open" || said || !patience) return told;
      await new Promise((resolve) => setTimeout(resolve, 700));
    }
  }

  later(sentence, atLeast = 0) {
    const seconds = Math.max(PAUSES[this.attempts] ?? 0, atLeast);
    this.attempts += 1;
    if (this.attempts > PAUSES.length) {
      this.tell("closed", `${sentence} ${PAUSES.length} attempts to open it again failed.`);
      return;
    }
    this.tell("waiting", `${sentence} Trying again in ${seconds} ${seconds === 1 ? "second" : "seconds"}.`);
    this.timer = setTimeout(() => whenSeen(() => this.phase === "waiting" && this.again()), seconds * 1000 * (0.9 + Math.random() / 5));
  }

  async again() {
    clearTimeout(this.timer);
    this.tell("connecting", "Opening a new session …");
    try {
      this.adopt(await ask("POST", this.session.again));
    } catch (refusal) {
      if (refusal.status === 401) this.tell("sign_in", "The console has closed. Sign in to open it again.");
      else if (refusal.passes) this.later(refusal.message, refusal.seconds);
      else if (refusal.reason === "not_running") this.waitForPower(refusal.message);
      else this.tell("closed", refusal.message);
      return;
    }
    this.open();
  }

  // The page becomes that of the new session, so that its address can be loaded again.
  adopt({ page, socket, password }) {
    const own = location.pathname;
    const moved = (address) => address.replace(own, page);
    this.session = { socket, password, state: moved(this.session.state), again: moved(this.session.again) };
    history.replaceState(null, "", page);
  }

  waitForPower(sentence) {
    this.tell("off", sentence);
    const look = async () => {
      const told = await ask("GET", this.session.state).catch(() => ({}));
      if (this.phase !== "off") return;
      if (told.power === "on") this.again();
      else this.timer = setTimeout(() => whenSeen(look), LOOK * 1000);
    };
    this.timer = setTimeout(look, LOOK * 1000);
  }
}

// Nobody looks at a hidden page, so it opens nothing.
function whenSeen(go) {
  if (!document.hidden) go();
  else document.addEventListener("visibilitychange", go, { once: true });
}
