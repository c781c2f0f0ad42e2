// The page of an SSH shell: opens a session, shows its progress and why it closed, and opens another one.
import { format, texts } from "consoles/texts";
import { compareHostKeys } from "ssh_shell/host-key";
import { applyControl } from "ssh_shell/keys";
import { hideNotice, showNotice } from "ssh_shell/notice";
import { showHostKey, showPing } from "ssh_shell/options";
import { createSession } from "ssh_shell/requests";
import { connect } from "ssh_shell/session";
import { applyTheme, resetTerminal, terminal } from "ssh_shell/terminal";

const RECONNECT_DELAYS_SECONDS = [1, 2, 4, 8, 15, 30, 30, 30];
const STABLE_MILLISECONDS = 10000; // after this time an open connection resets the attempts
const RECONNECT_REASONS = ["lost", "restarting", "failed"]; // close reasons after which another session is opened
const STARTING_REASONS = ["unreachable", "refused", "wrong_password"]; // the same while a guest that was lost starts again

const { name, back } = document.querySelector("#shell").dataset;
const status = document.querySelector("#status");
const openAgain = [texts.open_again, open];
const backLink = back ? [[format(texts.go_to, { name }), back]] : [];
let session = null;
let state = "closed";
let attempts = 0;
let timer;

function setState(newState, label, level = "") {
  state = newState;
  status.textContent = label;
  status.dataset.level = level;
}

async function open() {
  clearTimeout(timer);
  if (state === "opening" || state === "open") return;
  setState("opening", attempts ? texts.opening_again : texts.opening, "busy");
  showNotice(texts.installing_key, { advice: texts.key_is_temporary });
  terminal.focus();
  try {
    const { socket } = await createSession();
    showNotice(texts.signing_in);
    session = connect(socket, onEvent);
  } catch (error) {
    onRequestError(error);
  }
}

function onEvent(event) {
  if (event.type === "ready") onReady(event);
  else if (event.type === "ping") showPing(event.milliseconds);
  else onClose(event);
}

function onReady({ fingerprint }) {
  setState("open", texts.connected, "good");
  timer = setTimeout(() => (attempts = 0), STABLE_MILLISECONDS);
  hideNotice();
  resetTerminal(texts.new_shell);
  session.resize();
  showHostKey(fingerprint);
}

function onClose({ reason, message, exit }) {
  const sentence = message ?? (state === "open" ? texts.panel_connection_lost : texts.not_accepted);
  clearTimeout(timer);
  session = null;
  showPing();
  if (!reason || RECONNECT_REASONS.includes(reason) || (attempts && STARTING_REASONS.includes(reason))) return retry(sentence);
  if (reason === "host_key_changed") {
    stop();
    return compareHostKeys(sentence, { open, onRequestError, backLink });
  }
  const isFinished = reason === "finished";
  stop(isFinished ? texts.ended : texts.closed, isFinished ? "" : "bad");
  const title = Number.isInteger(exit) ? format(texts.exit_code, { exit }) : sentence;
  showNotice(title, { advice: texts.advice[reason], actions: [openAgain, ...backLink] });
}

function onRequestError(error) {
  if (attempts && error.isTemporary) return retry(error.message);
  stop(texts.not_opened);
  const action = error.status === 401 ? [texts.sign_in, location.href] : openAgain;
  showNotice(error.message, { advice: texts.advice[error.reason], actions: [action, ...backLink] });
}

/** Closes for good: nothing is opened again until the person asks for it. */
function stop(label = texts.closed, level = "bad") {
  clearTimeout(timer);
  attempts = 0;
  setState("closed", label, level);
}

/** Opens another session after a growing delay, unless too many attempts failed. */
function retry(message) {
  const seconds = RECONNECT_DELAYS_SECONDS[attempts++];
  if (seconds === undefined) {
    stop();
    return showNotice(message, { advice: texts.attempts_failed, actions: [openAgain, ...backLink] });
  }
  const stayClosed = () => {
    stop();
    showNotice(message, { actions: [openAgain, ...backLink] });
  };
  setState("waiting", texts.waiting, "busy");
  timer = setTimeout(open, seconds * 1000);
  const actions = [[texts.open_now, open], [texts.stay_closed, stayClosed]];
  showNotice(message, { advice: format(texts.trying_again, { seconds }), actions });
}

addEventListener("online", () => state === "waiting" && open());
addEventListener("beforeunload", (event) => state === "open" && event.preventDefault()); // Ctrl-W is typed easily

terminal.onData((data) => {
  if (state === "open") session.type(applyControl(data));
  else if (data === "\r" && state === "closed") open();
});
terminal.onBinary((data) => session?.type(Uint8Array.from(data, (letter) => letter.charCodeAt(0))));
terminal.onResize(() => session?.resize());
terminal.onTitleChange((title) => (document.title = `${name} · ${title || texts.shell}`));

applyTheme();
open();
