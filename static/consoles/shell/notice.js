// The strip below the terminal: what is going on, why it closed, and what can be done.
const strip = document.querySelector("#notice");
const title = strip.querySelector("[data-title]");
const text = strip.querySelector("[data-text]");
const facts = strip.querySelector("dl");
const buttons = strip.querySelector("[data-buttons]");

/** `details` are [term, value]; `actions` are [label, function or address, look], and the first is the one to take. */
export function notice(words, { more = "", details = [], actions = [] } = {}) {
  title.textContent = words;
  text.textContent = more;
  facts.replaceChildren(...details.map(pair));
  facts.hidden = !details.length;
  buttons.replaceChildren(...actions.map(button));
  strip.hidden = false;
}

export function hide() {
  strip.hidden = true;
}

function made(name, words, looks = "") {
  const element = document.createElement(name);
  element.textContent = words;
  element.className = looks;
  return element;
}

function pair([term, value]) {
  const both = made("div", "");
  both.append(made("dt", term), made("dd", value));
  return both;
}

function button([label, action, look], index) {
  const looks = `btn ${look ?? (index ? "" : "btn-primary")}`;
  if (typeof action === "string") return Object.assign(made("a", label, looks), { href: action });
  const one = Object.assign(made("button", label, looks), { type: "button" });
  one.addEventListener("click", action, { once: true });
  return one;
}
