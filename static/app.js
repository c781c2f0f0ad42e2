// What pages need beyond links and forms: confirmation, copying, the palette, live times, the theme.
"use strict";

const find = (selector, within = document) => within.querySelector(selector);
const keep = (name, value) => {
  try {
    localStorage.setItem(`panel-${name}`, value);
  } catch {} // private windows keep nothing
  document.dispatchEvent(new Event("panel:look"));
};

function toast(level, message) {
  const line = document.createElement("div");
  line.className = `alert alert-${level} toast-line`;
  line.textContent = message;
  find("#toasts").append(line);
}

// Confirmation: htmx asks, a dialog answers. Escape and Cancel are no.
document.addEventListener("htmx:confirm", (event) => {
  const { ctx, issueRequest, dropRequest } = event.detail;
  if (!ctx.confirm) return;
  event.preventDefault();
  const dialog = find("#confirm");
  const yes = find("#confirm-yes");
  find("#confirm-text").textContent = ctx.confirm;
  yes.textContent = ctx.sourceElement.dataset.yes || "Go on";
  yes.className = `btn btn-${"danger" in ctx.sourceElement.dataset ? "danger" : "primary"}`;
  dialog.returnValue = "no";
  dialog.addEventListener("close", () => (dialog.returnValue === "yes" ? issueRequest() : dropRequest()), { once: true });
  dialog.showModal();
});

// A poll waits while nobody looks at the page, and while somebody works in the part that it would replace.
const poll = (event) => event.detail.ctx?.sourceEvent?.type === "every";
const busy = (part) => {
  const active = document.activeElement;
  const typing = active?.matches("input:not([type=checkbox]), textarea, select") && part.contains(active);
  return typing || find(".dropdown-menu.show, dialog[open]", part);
};
document.addEventListener("htmx:before:request", (event) => {
  if (poll(event) && document.hidden) event.preventDefault();
});
document.addEventListener("htmx:before:swap", (event) => {
  const { target } = event.detail.ctx;
  if (poll(event) && target instanceof Element && target.id !== "tray" && busy(target)) event.preventDefault();
});
// A poll that is refused would be refused again: stop it.
document.addEventListener("htmx:response:error", (event) => {
  const { ctx } = event.detail;
  if (!poll(event) || ctx.response.status >= 502) return;
  ctx.sourceElement.removeAttribute("hx-get");
  htmx.process(ctx.sourceElement, true);
});
const offline = (is) => (find("#offline") ? (find("#offline").hidden = !is) : null);
document.addEventListener("htmx:error", () => offline(true));
document.addEventListener("htmx:after:request", (event) => offline(event.detail.ctx.response.status >= 502));

document.addEventListener("click", async (event) => {
  const target = event.target.closest("[data-copy],[data-dismiss],[data-set-theme],[data-fold],[data-palette],[data-toggle],[data-check-all],[data-close]");
  if (!target) return;
  const { copy, setTheme, toggle } = target.dataset;
  if (copy !== undefined) {
    await navigator.clipboard?.writeText(copy || find(target.dataset.copyFrom)?.textContent.trim() || "");
    target.classList.add("copied");
    setTimeout(() => target.classList.remove("copied"), 1500);
  } else if ("dismiss" in target.dataset) target.closest(".toast-line").remove();
  else if (setTheme) keep("theme", setTheme);
  else if ("fold" in target.dataset) keep("sidebar", document.documentElement.dataset.bsSidebar === "folded" ? "open" : "folded");
  else if ("palette" in target.dataset) {
    event.preventDefault();
    openPalette();
  } else if ("close" in target.dataset) target.closest("dialog")?.close();
  else if (toggle) {
    const shown = find(toggle);
    if (shown instanceof HTMLDialogElement) shown.showModal();
    else shown.hidden = !shown.hidden;
    find("[autofocus],input,textarea", shown)?.focus();
  } else if ("checkAll" in target.dataset) checkAll(target);
});

// A click beside a dialog closes it.
document.addEventListener("mousedown", (event) => {
  if (event.target instanceof HTMLDialogElement) event.target.close();
});

// Search and command palette.
function openPalette() {
  const query = find("#palette-query");
  if (!query || find("#palette").open) return;
  find("#palette").showModal();
  query.select();
  htmx.trigger(query, "look");
}
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
  }
  const palette = event.target.closest?.("#palette");
  if (!palette || !["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) return;
  const found = [...palette.querySelectorAll("#palette-found a")];
  const at = found.findIndex((link) => link.classList.contains("active"));
  if (event.key === "Enter") {
    if (found.length) {
      event.preventDefault();
      found[Math.max(at, 0)].click();
    }
    return;
  }
  event.preventDefault();
  const next = (at + (event.key === "ArrowDown" ? 1 : -1) + found.length) % found.length;
  found.forEach((link, index) => link.classList.toggle("active", index === next));
  found[next]?.scrollIntoView({ block: "nearest" });
});

// Boxes of a list: the bar for all of them counts what is ticked.
function checkAll(box) {
  for (const each of document.querySelectorAll(`input[form="${box.getAttribute("form")}"][name]`)) each.checked = box.checked;
  count(box.getAttribute("form"));
}
function count(form) {
  const bar = document.getElementById(form);
  if (!bar) return;
  const ticked = document.querySelectorAll(`input[form="${form}"][name]:checked`).length;
  bar.hidden = !ticked;
  find("[data-count]", bar).textContent = ticked;
}

// Relative times stay true while the page is open.
const STEPS = [[31536000, "y"], [2592000, "mo"], [86400, "d"], [3600, "h"], [60, "min"]];
function since(moment) {
  const passed = Math.floor((Date.now() - moment) / 1000);
  const [size, unit] = STEPS.find(([size]) => Math.abs(passed) >= size) || [];
  if (!size) return passed < -5 ? "in a moment" : "just now";
  const text = `${Math.floor(Math.abs(passed) / size)} ${unit}`;
  return passed < 0 ? `in ${text}` : `${text} ago`;
}
setInterval(() => {
  for (const time of document.querySelectorAll("time[data-ago]")) time.textContent = since(Date.parse(time.dateTime));
}, 20000);

// Elapsed time of what runs.
setInterval(() => {
  for (const time of document.querySelectorAll("time[data-elapsed]")) {
    const passed = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
    time.textContent = passed < 60 ? `${passed} s` : `${Math.floor(passed / 60)} min ${passed % 60} s`;
  }
}, 1000);

// Which theme is chosen; messages leave by themselves, failures stay until they were read.
function dress() {
  for (const choice of document.querySelectorAll("[data-set-theme]")) {
    choice.setAttribute("aria-pressed", choice.dataset.setTheme === document.documentElement.dataset.theme);
  }
}
document.addEventListener("panel:look", dress);
dress();
const leave = (line) => setTimeout(() => line.remove(), 6000);
document.querySelectorAll("#toasts .toast-line:not(.alert-danger)").forEach(leave);
new MutationObserver((changes) => {
  for (const { addedNodes } of changes) {
    for (const line of addedNodes) if (line.nodeType === 1 && !line.classList.contains("alert-danger")) leave(line);
  }
}).observe(find("#toasts"), { childList: true });
document.addEventListener("change", (event) => {
  if (event.target.matches("input[type=checkbox][form]")) count(event.target.getAttribute("form"));
});
