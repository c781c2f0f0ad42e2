// The screen of a machine: makes the parts of the page work together.
import { initLogging } from "novnc/util/logging.js";
import { prepareClipboard } from "screen/clipboard";
import { Connection } from "screen/connection";
import { recall, remember } from "screen/kept";
import { Keys } from "screen/keys";
import { load, named } from "screen/layout";
import { prepareMenus } from "screen/menus";
import { showNotice } from "screen/notice";
import { confirmed, power } from "screen/power";
import { Quality } from "screen/quality";
import { prepareText } from "screen/text";
import { prepareTouch } from "screen/touch";
import { Translation } from "screen/translate";
import { Typist } from "screen/typing";
import { View, takePicture, toggleFullScreen } from "screen/view";

initLogging("none"); // what goes wrong is said on the page
const $ = (selector) => document.querySelector(selector);
const stage = $("#stage");
const { name, keymaps, ...session } = stage.dataset;
const LOOKS = { open: "good", connecting: "busy", waiting: "busy" };
const TITLES = { open: "connected", connecting: "connecting", waiting: "interrupted", off: "off" };

const connection = new Connection($("#view"), session);
const keys = new Keys();
const typist = new Typist(keys);
const view = new View($("#view-menu"));
const quality = new Quality($("#quality"), stage);

// --- what is said

let standing = "";
let passing = null;
function say(sentence) {
  clearTimeout(passing);
  $("#status").textContent = $("#status").title = sentence;
  passing = setTimeout(() => ($("#status").textContent = $("#status").title = standing), 8000);
}

connection.addEventListener("phase", ({ detail }) => {
  const { phase, sentence } = detail;
  standing = sentence;
  say(sentence);
  $("#status").dataset.look = LOOKS[phase] ?? "bad";
  document.title = `${name} · ${TITLES[phase] ?? "closed"}`;
  showNotice($("#notice"), detail, name);
  for (const button of document.querySelectorAll("[data-needs-screen]")) button.disabled = phase !== "open";
  for (const item of document.querySelectorAll("[data-power]")) {
    item.disabled = phase === "off" ? item.dataset.power !== "start" : phase === "open" && item.dataset.power === "start";
  }
  if (phase !== "open") keys.rfb = null;
});

const hearClipboard = prepareClipboard({ sheet: $("#clipboard"), keys });
connection.addEventListener("screen", ({ detail: { rfb, socket } }) => {
  keys.rfb = rfb;
  keys.held.clear();
  keys.dispatchEvent(new Event("held"));
  view.show(rfb);
  quality.watch(socket);
  hearClipboard(rfb);
  if (document.activeElement === document.body) rfb.focus();
});

// --- the keyboard goes to the machine while the stage has the focus, and nowhere else

stage.addEventListener("focus", () => connection.rfb?.focus());
stage.addEventListener("focusout", () => dispatchEvent(new FocusEvent("blur"))); // noVNC lets go what is held then
stage.addEventListener("keydown", (event) => {
  if (event.key !== "F6" || !event.ctrlKey) return;
  event.preventDefault();
  event.stopPropagation();
  $(".bar .tool").focus();
}, { capture: true });
stage.addEventListener("keyup", () => keys.release());
const toStage = () => stage.focus();

// --- the layout of the machine's keyboard

const chooser = $("#keymap");
const kept = recall(`keymap-${name}`);
if (kept && [...chooser.options].some(({ value }) => value === kept)) chooser.value = kept;
chooser.addEventListener("change", () => {
  remember(`keymap-${name}`, chooser.value);
  translate(translating);
});
async function layout() {
  const [chosen] = chooser.selectedOptions;
  return { name: chosen.text, layout: await load(keymaps, chosen.value) };
}

const stopTyping = prepareText({ form: $("#text form"), typist, layout });
const lacking = (chosen, characters) => say(`The layout ${chosen} does not have ${named(characters)}.`);

async function write(text) {
  const chosen = await layout().catch((error) => say(error.message));
  if (!chosen) return;
  const { characters, missing } = chosen.layout.spell(text);
  if (missing.length) lacking(chosen.name, missing);
  await typist.write(characters);
}
prepareTouch({ row: $("#keys"), field: $("#phone"), keys, typist, write, focus: toStage });

const lacks = (character) => lacking(chooser.selectedOptions[0].text, [character]);
const translation = new Translation(stage, { keys, lacks });
let translating = false;
async function translate(on) {
  translating = on;
  try {
    const wanted = on ? (await layout()).layout : null;
    if (translating !== on) return;
    translation.layout = wanted;
    $("[data-translate]").setAttribute("aria-checked", String(on));
  } catch (error) {
    translating = false;
    say(error.message);
  }
}
translate(recall(`translate-${name}`) === "yes");

// --- the bar

async function chosen(item) {
  const { keys: codes, look, drag, picture, translate: toggles, power: action, question } = item.dataset;
  if (codes) {
    if (question && !(await confirmed($("#confirm"), question, "Send", true))) return;
    stopTyping();
    typist.next(() => keys.chord(codes.split(" ")));
  }
  if (toggles !== undefined) {
    translate(!translating);
    remember(`translate-${name}`, translating ? "yes" : "no");
  }
  if (picture !== undefined) takePicture(connection.rfb, name);
  if (look || drag !== undefined) view.choose({ look, drag });
  if (action) await power(item, $("#confirm"), say);
  toStage();
}
prepareMenus({ chosen });

const clicks = {
  "#full": () => toggleFullScreen().catch(() => say("The browser does not allow full screen here.")),
  "#touch": ({ currentTarget }) => {
    $("#keys").hidden = !$("#keys").hidden;
    currentTarget.setAttribute("aria-pressed", String(!$("#keys").hidden));
  },
  "[data-for=again]": () => connection.again(),
  "[data-for=start]": ({ currentTarget }) => power(currentTarget, $("#confirm"), say),
};
for (const [selector, click] of Object.entries(clicks)) $(selector)?.addEventListener("click", click);

if (matchMedia("(pointer: coarse)").matches) $("#touch").click();
connection.open();
