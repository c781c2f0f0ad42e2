// The page of a shell: opens a session, says how it goes and why it closed, and opens another one.
import { compare } from "shell/host-key";
import { typed } from "shell/keys";
import { hide, notice } from "shell/notice";
import { newSession } from "shell/opening";
import { showHostKey, showPing } from "shell/options";
import { connect } from "shell/session";
import { begin, paint, terminal } from "shell/terminal";

const PAUSES = [1, 2, 4, 8, 15, 30, 30, 30]; // seconds before each new attempt after a connection was lost
const STEADY = 10000; // milliseconds until a connection counts as one that holds
const PASSING = ["lost", "restarting", "failed"]; // endings that nobody has chosen, so another session is opened
const UNREADY = ["unreachable", "refused", "wrong_password"]; // the same, while a machine that was lost starts again
const ADVICE = {
  finished: "Enter opens another one.",
  ssh_key_injection_failed: "The guest agent puts a key into the machine, so it must run there.",
  unreachable: "The machine's firewall must let the panel in at port 22.",
};

const { name, back } = document.querySelector("#shell").dataset;
const status = document.querySelector("#status");
const again = ["Open again", open];
const elsewhere = back ? [[`Go to ${name}`, back]] : [];
let session = null;
let state = "closed";
let attempts = 0;
let timer;

function turn(to, words, look = "") {
  state = to;
  status.textContent = words;
  status.dataset.look = look;
}

async function open() {
  clearTimeout(timer);
  if (state === "opening" || state === "open") return;
  turn("opening", attempts ? "Opening again …" : "Opening …", "busy");
  notice("Installing a key in the guest …", { more: "It is made for this session, and taken out again afterwards." });
  terminal.focus();
  try {
    const { socket } = await newSession();
    notice("Signing in …");
    session = connect(socket, hear);
  } catch (refusal) {
    refused(refusal);
  }
}

function hear(event) {
  if (event.type === "ready") ready(event);
  else if (event.type === "ping") showPing(event.milliseconds);
  else closed(event);
}

function ready({ fingerprint }) {
  turn("open", "Connected", "good");
  timer = setTimeout(() => (attempts = 0), STEADY);
  hide();
  begin("New shell");
  session.resize();
  showHostKey(fingerprint);
}

function closed({ reason, message, exit }) {
  const lost = state === "open" ? "The connection to the panel was lost." : "The panel did not take the connection.";
  const words = message ?? lost;
  clearTimeout(timer);
  session = null;
  showPing();
  if (!reason || PASSING.includes(reason) || (attempts && UNREADY.includes(reason))) return retry(words);
  if (reason === "host_key_changed") {
    stop();
    return compare(words, { open, refused, elsewhere });
  }
  stop(reason === "finished" ? "Ended" : "Closed", reason === "finished" ? "" : "bad");
  const ended = Number.isInteger(exit) ? `The shell ended with exit code ${exit}.` : words;
  notice(ended, { more: ADVICE[reason], actions: [again, ...elsewhere] });
}

function refused(refusal) {
  if (attempts && refusal.passes) return retry(refusal.message);
  stop("Not opened");
  const first = refusal.status === 401 ? ["Sign in", location.href] : again;
  notice(refusal.message, { more: ADVICE[refusal.reason], actions: [first, ...elsewhere] });
}

/** Nothing goes on by itself any more. */
function stop(words = "Closed", look = "bad") {
  clearTimeout(timer);
  attempts = 0;
  turn("closed", words, look);
}

/** Opens another session after a pause that grows, unless that was in vain too often. */
function retry(message) {
  const pause = PAUSES[attempts++];
  if (pause === undefined) {
    stop();
    return notice(message, { more: "Several attempts to open another shell failed.", actions: [again, ...elsewhere] });
  }
  const leave = () => {
    stop();
    notice(message, { actions: [again, ...elsewhere] });
  };
  turn("waiting", "Waiting", "busy");
  timer = setTimeout(open, pause * 1000);
  const more = `Another shell is opened in ${pause === 1 ? "a second" : `${pause} seconds`}.`;
  notice(message, { more, actions: [["Open now", open], ["Leave it closed", leave]] });
}

addEventListener("online", () => state === "waiting" && open());
addEventListener("beforeunload", (event) => state === "open" && event.preventDefault()); // Ctrl-W is typed easily

terminal.onData((data) => {
  if (state === "open") session.type(typed(data));
  else if (data === "\r" && state === "closed") open();
});
terminal.onBinary((data) => session?.type(Uint8Array.from(data, (letter) => letter.charCodeAt(0))));
terminal.onResize(() => session?.resize());
terminal.onTitleChange((title) => (document.title = `${name} · ${title || "Shell"}`));

paint();
open();
