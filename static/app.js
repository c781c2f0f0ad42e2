// Behavior of pages beyond links and forms: confirmation, copying, live times, the theme.
"use strict";

const find = (selector, within = document) => within.querySelector(selector);
const texts = JSON.parse(find("#texts").textContent); // what scripts show, translated by the panel

// Confirmation in a dialog, of a request by htmx or of a plain form. Escape and Cancel mean no.
function askForConfirmation(question, { confirmLabel, danger }, onClose) {
  const dialog = find("#confirm");
  find("#confirm-text").textContent = question;
  find("#confirm-yes").textContent = confirmLabel || find("#confirm-yes").dataset.text;
  find("#confirm-yes").className = `btn btn-${danger === undefined ? "primary" : "danger"}`;
  dialog.returnValue = "no";
  dialog.addEventListener("close", () => onClose(dialog.returnValue === "yes"), { once: true });
  dialog.showModal();
}
document.addEventListener("htmx:confirm", (event) => {
  const { ctx, issueRequest, dropRequest } = event.detail;
  if (!ctx.confirm) return;
  event.preventDefault();
  askForConfirmation(ctx.confirm, ctx.sourceElement.dataset, (isConfirmed) => (isConfirmed ? issueRequest() : dropRequest()));
});
function confirmSubmit(event) {
  const { target, submitter } = event;
  const question = submitter?.dataset.confirm;
  if (!question) return;
  event.preventDefault();
  event.stopPropagation(); // before htmx and others send or note the form
  askForConfirmation(question, submitter.dataset, (isConfirmed) => {
    if (!isConfirmed) return;
    delete submitter.dataset.confirm;
    target.requestSubmit(submitter);
    submitter.dataset.confirm = question; // for a page that is shown again from the browser's history
  });
}
document.addEventListener("submit", confirmSubmit, true);
document.addEventListener("mousedown", (event) => {
  if (event.target instanceof HTMLDialogElement) event.target.close(); // a click on the backdrop of a dialog
});

// A poll is skipped while the page is hidden, and while the part that it would replace is in use. So is what live.js asks
// for after a change.
const isPoll = (event) => ["every", "live"].includes(event.detail.ctx?.sourceEvent?.type);
function isInUse(part) {
  const active = document.activeElement;
  const typing = active?.matches("input:not([type=checkbox]), textarea, select") && part.contains(active) && active.value !== active.defaultValue;
  return typing || find(".dropdown-menu.show, dialog[open], [name=ids]:checked", part);
}
document.addEventListener("htmx:before:request", (event) => {
  if (isPoll(event) && document.hidden) event.preventDefault();
});
document.addEventListener("htmx:before:swap", (event) => {
  const { target } = event.detail.ctx;
  if (isPoll(event) && target instanceof Element && isInUse(target)) event.preventDefault();
});

// Forms in a part that a poll replaces stay as they are while they have input or errors.
const isEdited = (field) => field.matches("input:not([type=hidden], [type=checkbox]), textarea") && field.value !== field.defaultValue;
document.addEventListener("htmx:before:swap", (event) => {
  const { target } = event.detail.ctx;
  if (!(target instanceof Element)) return;
  for (const form of target.querySelectorAll("form[id]")) {
    const isInUse = find("[aria-invalid=true], [role=alert]", form) || [...form.elements].some(isEdited);
    form.toggleAttribute("hx-morph-skip", Boolean(isPoll(event) && isInUse));
  }
});

// What somebody has unfolded stays so when a poll brings it folded.
document.addEventListener("htmx:before:swap", (event) => {
  for (const { fragment } of event.detail.tasks) {
    for (const details of fragment.querySelectorAll("details[data-keep-open]")) details.open ||= Boolean(document.getElementById(details.id)?.open);
  }
});

// A form that is shown again moves the focus to its first wrong field. Browsers warn of `autofocus` in swapped content.
document.addEventListener("htmx:before:swap", (event) => {
  for (const { fragment } of event.detail.tasks) {
    for (const field of fragment.querySelectorAll("[autofocus]")) field.removeAttribute("autofocus");
  }
});
document.addEventListener("htmx:after:swap", (event) => {
  if (event.detail.ctx.sourceEvent?.type === "submit") find("[aria-invalid=true]")?.focus();
});

// A poll that was refused would be refused again, so it ends. After a network error it continues, and a banner is shown.
const setOffline = (isOffline) => find("#offline")?.toggleAttribute("hidden", !isOffline);
document.addEventListener("htmx:after:request", (event) => setOffline(event.detail.ctx.response.status >= 502));
document.addEventListener("htmx:error", (event) => setOffline(event.detail.error instanceof TypeError));
document.addEventListener("htmx:response:error", (event) => {
  const { sourceElement, response } = event.detail.ctx;
  if (!isPoll(event) || response.status >= 502) return;
  sourceElement.removeAttribute("hx-get");
  htmx.process(sourceElement, true);
});

// Copying. Pages without TLS have no clipboard API, but can copy the selection.
async function copyText(text, button) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    const textarea = document.createElement("textarea");
    textarea.value = text;
    button.after(textarea);
    textarea.select();
    document.execCommand("copy");
    textarea.remove();
  }
  const label = button.getAttribute("aria-label");
  button.classList.add("copied");
  button.setAttribute("aria-label", texts.copied);
  setTimeout(() => {
    button.classList.remove("copied");
    if (label) button.setAttribute("aria-label", label);
    else button.removeAttribute("aria-label");
  }, 1500);
}

// Selected rows of a list: their number, and a checkbox for all.
function updateSelectedCount() {
  const boxes = [...document.querySelectorAll("[name=ids]")];
  const selected = boxes.filter((box) => box.checked).length;
  for (const counter of document.querySelectorAll("[data-selected-count]")) counter.textContent = selected;
  const all = find("[data-select-all]");
  if (all) [all.checked, all.indeterminate] = [selected > 0 && selected === boxes.length, selected > 0 && selected < boxes.length];
}
document.addEventListener("change", ({ target }) => {
  if ("selectAll" in target.dataset) for (const box of document.querySelectorAll("[name=ids]")) box.checked = target.checked;
  if (target.matches("[name=ids], [data-select-all]")) updateSelectedCount();
});
document.addEventListener("htmx:after:swap", updateSelectedCount);

// A checkbox that requires another one checks it too.
document.addEventListener("change", ({ target }) => {
  if (target.checked && target.dataset.requires) document.getElementById(target.dataset.requires).checked = true;
});

// The theme and the navigation: theme.js applies the preferences.
function savePreference(name, value) {
  try {
    localStorage.setItem(`panel-${name}`, value);
  } catch {} // private windows store nothing
  document.dispatchEvent(new Event("panel:preference-changed"));
}
function markTheme() {
  const { theme } = document.documentElement.dataset;
  for (const choice of document.querySelectorAll("[data-set-theme]")) {
    choice.setAttribute("aria-pressed", choice.dataset.setTheme === theme);
  }
}
document.addEventListener("panel:preference-changed", markTheme);
markTheme();

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy],[data-dismiss],[data-set-theme],[data-toggle-sidebar]");
  if (!button) return;
  if ("copy" in button.dataset) copyText(button.dataset.copy || button.previousElementSibling.textContent, button);
  if ("dismiss" in button.dataset) button.closest(".toast-line").remove();
  if ("setTheme" in button.dataset) savePreference("theme", button.dataset.setTheme);
  if ("toggleSidebar" in button.dataset) savePreference("sidebar", document.documentElement.dataset.bsSidebar ? "open" : "folded");
});

// A state that changed in place pulses once.
new MutationObserver((changes) => {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const { target, oldValue } of changes) {
    if (target.dataset.state !== oldValue) target.animate([{ opacity: 0.2 }, { opacity: 1 }], 200);
  }
}).observe(document.body, { subtree: true, attributeFilter: ["data-state"], attributeOldValue: true });

// On a phone not all tabs fit: scroll to the active one.
for (const tab of document.querySelectorAll(".tab.active")) {
  tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;
}

// The contents of an API reference are longer than the window: scroll to the open family.
const openFamily = document.querySelector(".reference-contents [aria-current]");
if (openFamily) {
  const contents = openFamily.closest(".reference-contents > ul");
  contents.scrollTop = openFamily.offsetTop - contents.offsetTop;
}

// Relative times stay current while the page is open.
function formatRelativeTime(elapsedSeconds) {
  const unit = texts.relative_times.find(({ seconds }) => Math.abs(elapsedSeconds) >= seconds);
  const text = unit[elapsedSeconds < -5 ? "future" : "past"];
  return text.replace("{count}", Math.floor(Math.abs(elapsedSeconds) / unit.seconds));
}
const formatElapsedTime = (elapsedSeconds) => (elapsedSeconds < 60 ? `${Math.max(elapsedSeconds, 0)} s` : `${Math.floor(elapsedSeconds / 60)} min ${elapsedSeconds % 60} s`);
function updateTimes(selector, format) {
  for (const time of document.querySelectorAll(selector)) {
    time.textContent = format(Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
  }
}
setInterval(() => updateTimes("time[data-ago]", formatRelativeTime), 20000);
setInterval(() => updateTimes("time[data-elapsed]", formatElapsedTime), 1000);

// Messages disappear by themselves; errors stay until they are dismissed.
const scheduleRemoval = (line) => line.matches?.(".toast-line:not(.alert-danger)") && setTimeout(() => line.remove(), 6000);
[...find("#toasts").children].forEach(scheduleRemoval);
new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach(scheduleRemoval))).observe(find("#toasts"), {
  childList: true,
});

// Results of the viewer's own tasks, when they end while the page is open.
const endedTasks = new Set([...document.querySelectorAll("[data-ended-task]")].map(({ dataset }) => dataset.endedTask));
document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
  if (ctx.sourceElement.id !== "recent-tasks") return;
  for (const result of document.querySelectorAll("#recent-tasks template[data-ended-task]")) {
    if (!endedTasks.has(result.dataset.endedTask)) find("#toasts").append(result.content.cloneNode(true));
    endedTasks.add(result.dataset.endedTask);
  }
});

// Failed tasks count as seen once the menu with them was open: the server leaves the mark out then.
document.addEventListener("shown.bs.dropdown", ({ target }) => {
  const { newestFailure } = target.dataset;
  if (!newestFailure) return;
  document.cookie = `panel-seen-task=${newestFailure}; path=/; max-age=86400; SameSite=Lax`;
  delete target.dataset.newestFailure;
  find(".badge-failed", target)?.remove();
});

// Show errors of fields, such as a wrong name in a confirmation, below their fields, and focus the field.
document.addEventListener("field-error", ({ target, detail }) => {
  const form = target.closest("form");
  for (const [name, text] of Object.entries(detail)) {
    const field = form?.elements[name];
    if (!field) continue;
    clearFieldError(field);
    const note = document.createElement("div");
    note.className = "invalid-feedback d-block";
    note.id = `${field.id}-error`;
    note.textContent = text;
    (field.closest(".field-line") || field).after(note);
    field.classList.add("is-invalid");
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", note.id);
    field.focus();
    field.select();
  }
});
function clearFieldError(field) {
  document.getElementById(`${field.id}-error`)?.remove();
  field.classList.remove("is-invalid");
  for (const name of ["aria-invalid", "aria-describedby"]) field.removeAttribute(name);
}
document.addEventListener("input", ({ target }) => {
  if (document.getElementById(`${target.id}-error`)) clearFieldError(target);
});

// The reason of a disabled button: Escape hides it until the pointer or the focus comes again.
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") for (const reason of document.querySelectorAll(".reason")) reason.hidden = true;
});
for (const kind of ["focusin", "pointerover"]) {
  document.addEventListener(kind, ({ target }) => {
    for (const reason of target.closest?.(".with-reason")?.querySelectorAll(".reason[hidden]") ?? []) reason.hidden = false;
  });
}

// Restore the focus: a button that is disabled while its request runs, or replaced by the answer, loses it.
const CONTROLS = "input:not([type=hidden]):enabled, button:enabled, a[href], select:enabled, textarea:enabled";
const SUBMIT_BUTTON = "button[type=submit]:enabled";
let focused = null;
document.addEventListener("pointerdown", () => (focused = null), true); // a click outside all controls removes the focus
document.addEventListener("focusin", ({ target }) => (focused = target));
document.addEventListener("htmx:finally:request", () => setTimeout(restoreFocus));
function restoreFocus() {
  const active = document.activeElement;
  if (!focused || (active && active !== document.body && !active.disabled) || find("dialog[open]")) return;
  const sameElement = focused.isConnected ? focused : focused.id && document.getElementById(focused.id);
  const form = focused.closest("form[id]");
  const container = sameElement ? sameElement.closest(".btn-list, form:not(.action), section, tr") : form && document.getElementById(form.id);
  const next = container && find(CONTROLS, container);
  if (container && !next) container.tabIndex = -1; // all its buttons are disabled until the task has ended
  for (const target of [sameElement, next, container, find("#main")].filter(Boolean)) {
    target.focus({ preventScroll: true });
    if (document.activeElement === target) return;
  }
}

// After a form: another page gets the focus at its content, the same page at the form.
const SUBMITTED_FORM = "panel-submitted-form";
function storeSubmittedForm(form) {
  try {
    sessionStorage.setItem(SUBMITTED_FORM, JSON.stringify([location.pathname, form.id]));
  } catch {} // private windows store nothing
}
document.addEventListener("submit", ({ target, defaultPrevented }) => {
  if (!defaultPrevented && target.method === "post" && !target.target) storeSubmittedForm(target);
});
document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  const form = ctx.sourceElement.closest("form");
  if (form && ctx.response.headers.get("HX-Redirect")) storeSubmittedForm(form);
});
function focusSubmittedForm() {
  let path, id;
  try {
    [path, id] = JSON.parse(sessionStorage.getItem(SUBMITTED_FORM) || "[]");
    sessionStorage.removeItem(SUBMITTED_FORM);
  } catch {}
  if (!path || document.activeElement !== document.body || find("[autofocus]")) return;
  const form = path === location.pathname && id && document.getElementById(id);
  const control = form && (find(SUBMIT_BUTTON, form) || find(CONTROLS, form));
  (control || find("#main"))?.focus({ preventScroll: true });
}
focusSubmittedForm();

// Keep the count in the title equal to that of the list, also after a filter.
function updateTitleCount() {
  const title = find(".page-title .count");
  const list = find("#rows");
  if (!title || !list) return;
  const pager = find("[data-total]", list);
  if (pager || find(".empty", list)) title.textContent = Number(pager?.dataset.total || 0).toLocaleString(document.documentElement.lang);
}
document.addEventListener("htmx:after:swap", updateTitleCount);
