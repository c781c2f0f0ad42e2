// Lists: which columns are shown and how dense the rows are, kept in this browser. theme.js applies both before the
// first paint; this file fills the menu of a list. Uses `find` and `savePreference` of app.js.
"use strict";

const listMenu = find(".list-menu");
const loadHiddenColumns = () => JSON.parse(localStorage.getItem(`panel-columns-${location.pathname}`) || "[]");

function buildColumnChoice(label, isShown) {
  const choice = document.createElement("label");
  choice.className = "dropdown-item";
  const box = document.createElement("input");
  box.type = "checkbox";
  box.className = "form-check-input m-0 me-2";
  box.checked = isShown;
  box.dataset.columnChoice = label;
  choice.append(box, label);
  return choice;
}
// Only cells with a label can be hidden: never the name, the checkbox and the menu.
function fillColumns() {
  const group = find("[data-columns]", listMenu);
  const labels = [...document.querySelectorAll("#rows th[data-column]")].map((head) => head.dataset.column);
  const optional = labels.filter((label) => find(`#rows td[data-label="${CSS.escape(label)}"]`));
  for (const choice of group.querySelectorAll("label")) choice.remove();
  group.hidden = !optional.length;
  const hidden = loadHiddenColumns();
  for (const label of optional) group.append(buildColumnChoice(label, !hidden.includes(label)));
}
function saveColumns() {
  const boxes = [...listMenu.querySelectorAll("[data-column-choice]")];
  const hidden = boxes.filter((box) => !box.checked).map((box) => box.dataset.columnChoice);
  savePreference(`columns-${location.pathname}`, JSON.stringify(hidden));
}
listMenu?.addEventListener("show.bs.dropdown", () => {
  fillColumns();
  find("[data-density]", listMenu).checked = document.documentElement.dataset.density === "compact";
  for (const field of listMenu.querySelectorAll("[data-current-query]")) field.value = location.search.slice(1);
  const exportLink = find("[data-csv]", listMenu);
  const query = new URLSearchParams(location.search);
  query.set("format", "csv");
  if (exportLink) exportLink.href = `?${query}`;
});
listMenu?.addEventListener("change", ({ target }) => {
  if ("density" in target.dataset) savePreference("density", target.checked ? "compact" : "normal");
  if ("columnChoice" in target.dataset) saveColumns();
});

// The panel of a bulk action: it gets the focus, and the selection ends when the action was requested. The bar of the
// actions gets the focus back when the panel is closed.
document.addEventListener("htmx:after:swap", ({ detail }) => {
  const panel = detail.ctx.target?.id === "bulk-results" && find("[data-bulk-panel]");
  if (!panel) return;
  (find("[name=typed]", panel) || find("#bulk-panel-title")).focus();
  if (find("[name=typed]", panel)) return;
  for (const box of document.querySelectorAll("[name=ids]:checked, [data-select-all]")) box.checked = false;
  updateSelectedCount();
});
document.addEventListener("click", ({ target }) => {
  if (!target.closest("[data-close-panel]")) return;
  find("#bulk-results").replaceChildren();
  (find("[name=ids]:checked") || find("[data-select-all]") || find("#main")).focus();
});

// The actions of a row's menu are loaded when it opens. Then it is placed again, because its height has changed.
document.addEventListener("htmx:after:swap", ({ detail }) => {
  if (detail.ctx.target?.matches?.(".loaded-items")) dispatchEvent(new Event("resize"));
});
