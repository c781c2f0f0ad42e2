// The search palette and the keyboard shortcuts. Uses `find` and `savePreference` of app.js.
"use strict";

const palette = find("#palette");
const paletteQuery = find("#palette-query");
const listResults = () => [...document.querySelectorAll("#palette-results .search-result")];
const findActiveResult = () => find("#palette-results .search-result.active");

// Shows a dialog. When it closes, the focus returns to the opener, also when that was replaced meanwhile.
function openDialog(dialog, fallback) {
  if (!dialog || find("dialog[open]")) return false;
  const opener = document.activeElement === document.body ? fallback : document.activeElement;
  const restoreOpener = () => {
    const target = opener?.isConnected ? opener : opener?.id && document.getElementById(opener.id);
    (target || find("#main"))?.focus();
  };
  dialog.addEventListener("close", restoreOpener, { once: true });
  dialog.showModal();
  return true;
}
function openPalette() {
  if (!openDialog(palette, find("#search-open"))) return;
  paletteQuery.select();
  htmx.trigger(paletteQuery, "palette-opened");
}
const openShortcuts = () => openDialog(find("#shortcuts"));

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-palette],[data-shortcuts],[data-close-dialog]");
  if (!button) return;
  event.preventDefault();
  if ("closeDialog" in button.dataset) button.closest("dialog").close();
  else if ("palette" in button.dataset) openPalette();
  else openShortcuts();
});

// What screen readers say: the number of results, then the selected one.
const announce = (text) => palette && (find("#palette-status").textContent = text || "");
// Results that reload because something has changed keep their selection, and are not announced again.
const getResultUrl = (row) => row && find(".search-result-link", row).getAttribute("href");
let selectedUrl = null;
document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
  selectedUrl = ctx.sourceEvent?.type === "live" ? getResultUrl(findActiveResult()) : null;
});
document.addEventListener("htmx:after:swap", ({ detail }) => {
  if (detail.ctx.target?.id !== "palette-results") return;
  const selected = selectedUrl && listResults().find((row) => getResultUrl(row) === selectedUrl);
  if (selected) for (const row of listResults()) row.classList.toggle("active", row === selected);
  else announce(find("#palette-results [data-summary]")?.dataset.summary);
});
function selectResult(step) {
  const results = listResults();
  const current = results.findIndex((row) => row.classList.contains("active"));
  const next = (current + step + results.length) % results.length;
  results.forEach((row, index) => row.classList.toggle("active", index === next));
  results[next].scrollIntoView({ block: "nearest" });
  announce(find(".search-result-name", results[next]).textContent);
  paletteQuery.focus();
}

// From the end of the text, the right arrow moves to the actions of the selected result; the left arrow moves back.
function moveAmongActions(event, step) {
  const isInField = event.target === paletteQuery;
  if (isInField && (step < 0 || paletteQuery.selectionStart < paletteQuery.value.length)) return;
  const row = isInField ? findActiveResult() : event.target.closest(".search-result");
  const actions = row ? [...row.querySelectorAll(".search-result-actions :is(a, button)")] : [];
  const next = actions[actions.indexOf(event.target) + step];
  if (!actions.length) return;
  event.preventDefault();
  (next || (step < 0 ? paletteQuery : event.target)).focus();
}
palette?.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target === paletteQuery) {
    event.preventDefault(); // the browser would clear the field first
    palette.close();
  }
  if (event.key === "ArrowRight") moveAmongActions(event, 1);
  if (event.key === "ArrowLeft") moveAmongActions(event, -1);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && listResults().length) {
    event.preventDefault();
    selectResult(step);
  }
  if (event.key === "Enter" && event.target === paletteQuery) {
    const row = findActiveResult() || listResults()[0];
    if (row) event.preventDefault();
    if (row) find(".search-result-link", row).click();
  }
});
palette?.addEventListener("mousemove", ({ target }) => {
  const row = target.closest?.(".search-result");
  if (row) for (const other of listResults()) other.classList.toggle("active", other === row);
});
palette?.addEventListener("click", ({ target }) => target.closest("[data-set-theme]") && palette.close());
// An action of a result closes the palette, so that its message and the page are visible.
palette?.addEventListener("submit", ({ target }) => target.target === "_blank" && palette.close());
palette?.addEventListener("htmx:after:request", ({ detail }) => {
  if (detail.ctx.sourceElement.matches(".search-result-actions form")) palette.close();
});

// Shortcuts of one key, which can be turned off, and of `g` and a letter. None while a field or a dialog is in use.
const SEQUENCE_MILLISECONDS = 1500;
let sequenceStarted = 0;
const isTyping = (element) => element.matches?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
const areShortcutsOff = () => document.documentElement.dataset.singleKeys === "off";
const SHORTCUTS = {
  "?": openShortcuts,
  "/": () => {
    const field = find(".filters input[type=search]");
    field?.focus();
    field?.select();
  },
};
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (areShortcutsOff() || isTyping(event.target) || find("dialog[open], .dropdown-menu.show")) return;
  const link = Date.now() - sequenceStarted < SEQUENCE_MILLISECONDS && find(`#navigation [data-shortcut="${CSS.escape(event.key)}"]`);
  sequenceStarted = event.key === "g" && !link ? Date.now() : 0;
  if (link) link.click();
  else if (SHORTCUTS[event.key]) {
    event.preventDefault();
    SHORTCUTS[event.key]();
  }
});
const shortcutSwitch = find("#shortcuts-enabled");
if (shortcutSwitch) {
  shortcutSwitch.checked = !areShortcutsOff();
  shortcutSwitch.addEventListener("change", () => savePreference("shortcuts", shortcutSwitch.checked ? "on" : "off"));
}
