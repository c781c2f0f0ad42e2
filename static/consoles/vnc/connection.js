// The connection to the guest's VNC server: opens the session's WebSocket, shows why it closed, and opens another session.
import RFB from "novnc/rfb.js";
import { request } from "consoles/requests";
import { format, texts } from "consoles/texts";

// Close reasons after which the page connects again by itself.
const RECONNECT_REASONS = new Set([
  null, undefined, "left", "vanished", "finished", "restarting", "unreachable", "refused", "lost", "stuck", "failed",
]);

const RECONNECT_DELAYS_SECONDS = [1, 2, 4, 8, 15, 30, 30, 60];
const STABLE_SECONDS = 10; // after this time an open connection resets the attempts
const POWER_POLL_SECONDS = 4;
const STATE_ATTEMPTS = 4;
const STATE_RETRY_MILLISECONDS = 700;

export class Connection extends EventTarget {
  // `session` has the addresses `socket`, `state` and `newSession`, and `password`; the console fills the element `view`.
  constructor(view, session) {
    super();
    Object.assign(this, { view, session, rfb: null, attempts: 0, timer: null });
  }

  // Phases: connecting, open, waiting (connects again by itself), off (the guest is), closed, sign_in.
  setPhase(phase, sentence) {
    this.phase = phase;
    this.dispatchEvent(new CustomEvent("phase", { detail: { phase, sentence } }));
  }

  open() {
    clearTimeout(this.timer);
    this.setPhase("connecting", texts.connecting);
    const socket = new WebSocket(new URL(this.session.socket, location.href.replace(/^http/, "ws")), "binary");
    let closeReason = "";
    let openedAt = 0;
    socket.addEventListener("close", ({ reason }) => (closeReason ||= reason));
    const rfb = new RFB(this.view, socket, { credentials: { password: this.session.password } });
    rfb.addEventListener("securityfailure", ({ detail }) => (closeReason ||= detail.reason));
    rfb.addEventListener("connect", () => {
      openedAt = Date.now();
      this.dispatchEvent(new CustomEvent("connect", { detail: { rfb, socket } }));
      this.setPhase("open", texts.connected);
    });
    rfb.addEventListener("disconnect", () => {
      if (openedAt && Date.now() - openedAt > STABLE_SECONDS * 1000) this.attempts = 0;
      this.rfb = null;
      this.onDisconnect(closeReason);
    });
    this.rfb = rfb;
  }

  async onDisconnect(closeReason) {
    this.setPhase("connecting", closeReason || texts.connection_lost);
    const state = await this.fetchState();
    const fallback = state.state === "fresh" ? texts.not_accepted : texts.panel_connection_lost;
    const sentence = closeReason || state.message || fallback;
    if (state.power === "off") this.waitForPower(sentence);
    else if (RECONNECT_REASONS.has(state.reason)) this.reopenLater(sentence);
    else this.setPhase("closed", sentence);
  }

  // The panel may record the end a moment after the browser noticed it.
  async fetchState() {
    for (let attempt = 1; ; attempt += 1) {
      const state = await request("GET", this.session.state).catch(() => ({ state: "unknown" }));
      if (state.state !== "open" || attempt === STATE_ATTEMPTS) return state;
      await new Promise((resolve) => setTimeout(resolve, STATE_RETRY_MILLISECONDS));
    }
  }

  reopenLater(sentence, minimumSeconds = 0) {
    const seconds = Math.max(RECONNECT_DELAYS_SECONDS[this.attempts] ?? 0, minimumSeconds);
    this.attempts += 1;
    if (this.attempts > RECONNECT_DELAYS_SECONDS.length) {
      this.setPhase("closed", format(texts.attempts_failed, { sentence, attempts: RECONNECT_DELAYS_SECONDS.length }));
      return;
    }
    this.setPhase("waiting", format(texts.trying_again, { sentence, seconds }));
    const delay = seconds * 1000 * (0.9 + Math.random() / 5);
    this.timer = setTimeout(() => runWhenVisible(() => this.phase === "waiting" && this.reopen()), delay);
  }

  async reopen() {
    clearTimeout(this.timer);
    this.setPhase("connecting", texts.opening_session);
    try {
      this.useSession(await request("POST", this.session.newSession));
    } catch (error) {
      if (error.status === 401) this.setPhase("sign_in", texts.sign_in);
      else if (error.isTemporary) this.reopenLater(error.message, error.retryAfterSeconds);
      else if (error.reason === "not_running") this.waitForPower(error.message);
      else this.setPhase("closed", error.message);
      return;
    }
    this.open();
  }

  // The page gets the address of the new session, so that it can be reloaded.
  useSession({ page, socket, password }) {
    const oldPage = location.pathname;
    const moveAddress = (address) => address.replace(oldPage, page);
    this.session = { socket, password, state: moveAddress(this.session.state), newSession: moveAddress(this.session.newSession) };
    history.replaceState(null, "", page);
  }

  waitForPower(sentence) {
    this.setPhase("off", sentence);
    const poll = async () => {
      const state = await request("GET", this.session.state).catch(() => ({}));
      if (this.phase !== "off") return;
      if (state.power === "on") this.reopen();
      else this.timer = setTimeout(() => runWhenVisible(poll), POWER_POLL_SECONDS * 1000);
    };
    this.timer = setTimeout(poll, POWER_POLL_SECONDS * 1000);
  }
}

// A hidden page opens nothing.
function runWhenVisible(action) {
  if (!document.hidden) action();
  else document.addEventListener("visibilitychange", action, { once: true });
}
