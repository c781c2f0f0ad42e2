// The content security policy forbids style elements and style attributes, and xterm.js creates both. What it writes into
// such an element goes to a constructed style sheet, and an attribute to the CSSOM, which no policy forbids. Imported
// before a terminal is opened.
const { createElement } = Document.prototype;
const { setAttribute } = Element.prototype;

document.createElement = function (name, options) {
  if (name !== "style") return createElement.call(this, name, options);
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const placeholder = createElement.call(this, "template"); // never displayed
  return Object.defineProperty(placeholder, "textContent", { set: (rules) => sheet.replaceSync(rules) });
};

HTMLSpanElement.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};
