// The strip below the terminal: what happens, why the shell closed, and what can be done.
const strip = document.querySelector("#notice");
const titleElement = strip.querySelector("[data-title]");
const adviceElement = strip.querySelector("[data-text]");
const detailList = strip.querySelector("dl");
const buttonRow = strip.querySelector("[data-buttons]");

/** `details` are [term, value]; `actions` are [label, function or address, class], the most likely first. */
export function showNotice(title, { advice = "", details = [], actions = [] } = {}) {
  titleElement.textContent = title;
  adviceElement.textContent = advice;
  detailList.replaceChildren(...details.map(createDetail));
  detailList.hidden = !details.length;
  buttonRow.replaceChildren(...actions.map(createButton));
  strip.hidden = false;
}

export function hideNotice() {
  strip.hidden = true;
}

function createElement(name, text, className = "") {
  return Object.assign(document.createElement(name), { textContent: text, className });
}

function createDetail([term, value]) {
  const detail = createElement("div", "");
  detail.append(createElement("dt", term), createElement("dd", value));
  return detail;
}

function createButton([label, action, buttonClass], index) {
  const className = `btn ${buttonClass ?? (index ? "" : "btn-primary")}`;
  if (typeof action === "string") return Object.assign(createElement("a", label, className), { href: action });
  const button = Object.assign(createElement("button", label, className), { type: "button" });
  button.addEventListener("click", action, { once: true });
  return button;
}
