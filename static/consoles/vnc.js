// The page of a VNC console: connects its parts.
import { initLogging } from "novnc/util/logging.js";
import { format, texts } from "consoles/texts";
import { prepareClipboard } from "vnc/clipboard";
import { Connection } from "vnc/connection";
import { confirm } from "vnc/dialog";
import { KeyTranslation } from "vnc/key-translation";
import { Keys } from "vnc/keys";
import { formatCharacters, loadLayout } from "vnc/layout";
import { prepareMenus } from "vnc/menus";
import { showNotice } from "vnc/notice";
import { runPowerAction } from "vnc/power";
import { loadPreference, savePreference } from "vnc/preferences";
import { Quality } from "vnc/quality";
import { prepareTouch } from "vnc/touch";
import { prepareTypeText } from "vnc/type-text";
import { TypingQueue } from "vnc/typing";
import { View, saveScreenshot, toggleFullScreen } from "vnc/view";

initLogging("none"); // the page itself shows what goes wrong
const $ = (selector) => document.querySelector(selector);
const stage = $("#stage");
const { name, keymaps, ...session } = stage.dataset;
const STATUS_LEVELS = { open: "good", connecting: "busy", waiting: "busy" };
const STATUS_MESSAGE_MILLISECONDS = 8000;

const connection = new Connection($("#view"), session);
const keys = new Keys();
const typingQueue = new TypingQueue(keys);
const view = new View($("#view-menu"));
const quality = new Quality($("#quality"), stage);

// --- the status line: the state of the connection, and for seconds what was done last

let connectionStatus = "";
let statusTimer = null;
function showStatus(sentence) {
  clearTimeout(statusTimer);
  $("#status").textContent = $("#status").title = sentence;
  statusTimer = setTimeout(() => ($("#status").textContent = $("#status").title = connectionStatus), STATUS_MESSAGE_MILLISECONDS);
}

// Nothing can be sent to a machine that is off: the boxes close, and the notice below them can be read.
function closeSheets() {
  const open = [...document.querySelectorAll(".sheet:popover-open")];
  if (open.some((sheet) => sheet.contains(document.activeElement))) stage.focus();
  for (const sheet of open) sheet.hidePopover();
}

connection.addEventListener("phase", ({ detail }) => {
  const { phase, sentence } = detail;
  connectionStatus = sentence;
  showStatus(sentence);
  $("#status").dataset.level = STATUS_LEVELS[phase] ?? "bad";
  document.title = `${name} · ${texts.titles[phase]}`;
  showNotice($("#notice"), detail, name);
  for (const button of document.querySelectorAll("[data-needs-connection]")) button.disabled = phase !== "open";
  for (const item of document.querySelectorAll("[data-power]")) {
    item.disabled = phase === "off" ? item.dataset.power !== "start" : phase === "open" && item.dataset.power === "start";
  }
  if (phase !== "open") keys.rfb = null;
  if (phase === "off") closeSheets();
});

const watchClipboard = prepareClipboard({ sheet: $("#clipboard"), keys });
connection.addEventListener("connect", ({ detail: { rfb, socket } }) => {
  keys.rfb = rfb;
  keys.held.clear();
  keys.dispatchEvent(new Event("held"));
  view.show(rfb);
  quality.watch(socket);
  watchClipboard(rfb);
  if (document.activeElement === document.body) rfb.focus();
});

// --- the keyboard goes to the guest while the stage has the focus, and nowhere else

stage.addEventListener("focus", () => connection.rfb?.focus());
stage.addEventListener("focusout", () => dispatchEvent(new FocusEvent("blur"))); // noVNC then releases the keys that are down
stage.addEventListener("keydown", (event) => {
  if (event.key !== "F6" || !event.ctrlKey) return;
  event.preventDefault();
  event.stopPropagation();
  $(".bar .tool").focus();
}, { capture: true });
stage.addEventListener("keyup", () => keys.release());
const focusStage = () => stage.focus();

// --- the keyboard layout of the guest

const layoutSelect = $("#keymap");
const savedKeymap = loadPreference(`keymap-${name}`);
if (savedKeymap && [...layoutSelect.options].some(({ value }) => value === savedKeymap)) layoutSelect.value = savedKeymap;
layoutSelect.addEventListener("change", () => {
  savePreference(`keymap-${name}`, layoutSelect.value);
  setKeyTranslation(isTranslating);
});
async function loadSelectedLayout() {
  const [option] = layoutSelect.selectedOptions;
  return { name: option.text, layout: await loadLayout(keymaps, option.value) };
}

// The box covers the picture, so it closes when the text is typed.
const onTyped = (sentence) => {
  if ($("#text").contains(document.activeElement) || document.activeElement === document.body) focusStage();
  $("#text").hidePopover();
  showStatus(sentence);
};
const stopTyping = prepareTypeText({ form: $("#text form"), typingQueue, loadSelectedLayout, onTyped });
const showMissing = (layoutName, characters) =>
  showStatus(format(texts.missing_characters, { layout: layoutName, characters: formatCharacters(characters) }));

async function write(text) {
  const selected = await loadSelectedLayout().catch((error) => showStatus(error.message));
  if (!selected) return;
  const { characters, missing } = selected.layout.findTextStrokes(text);
  if (missing.length) showMissing(selected.name, missing);
  await typingQueue.write(characters);
}
prepareTouch({ row: $("#keys"), field: $("#phone"), keys, typingQueue, write, focus: focusStage });

const onMissing = (character) => showMissing(layoutSelect.selectedOptions[0].text, [character]);
const keyTranslation = new KeyTranslation(stage, { keys, onMissing });
let isTranslating = false;
async function setKeyTranslation(on) {
  isTranslating = on;
  try {
    const layout = on ? (await loadSelectedLayout()).layout : null;
    if (isTranslating !== on) return;
    keyTranslation.layout = layout;
    $("[data-translate]").setAttribute("aria-checked", String(on));
  } catch (error) {
    isTranslating = false;
    showStatus(error.message);
  }
}
setKeyTranslation(loadPreference(`translate-${name}`) === "yes");

// --- the bar

async function onMenuItem(item) {
  const { keys: codes, viewMode, drag, screenshot, translate, power, question } = item.dataset;
  if (codes) {
    if (question && !(await confirm($("#confirm"), question, texts.send, true))) return;
    stopTyping();
    typingQueue.next(() => keys.chord(codes.split(" ")));
  }
  if (translate !== undefined) {
    setKeyTranslation(!isTranslating);
    savePreference(`translate-${name}`, isTranslating ? "yes" : "no");
  }
  if (screenshot !== undefined) saveScreenshot(connection.rfb, name);
  if (viewMode || drag !== undefined) view.choose({ viewMode, drag });
  if (power) await runPowerAction(item, $("#confirm"), showStatus);
  focusStage();
}
prepareMenus({ onMenuItem });

const clickHandlers = {
  "#full": () => toggleFullScreen().catch(() => showStatus(texts.no_full_screen)),
  "#touch": ({ currentTarget }) => {
    $("#keys").hidden = !$("#keys").hidden;
    currentTarget.setAttribute("aria-pressed", String(!$("#keys").hidden));
  },
  "[data-action=reopen]": () => connection.reopen(),
  "[data-action=start]": ({ currentTarget }) => runPowerAction(currentTarget, $("#confirm"), showStatus),
};
for (const [selector, handler] of Object.entries(clickHandlers)) $(selector)?.addEventListener("click", handler);

if (matchMedia("(pointer: coarse)").matches) $("#touch").click();
connection.open();
