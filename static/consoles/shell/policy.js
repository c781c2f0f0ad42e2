// The page's policy forbids style elements and style attributes, and xterm.js makes both. What it writes into such an
// element goes to a constructed sheet, and an attribute to the CSSOM: no policy forbids these. Imported before a
// terminal is opened.
const { createElement } = Document.prototype;
const { setAttribute } = Element.prototype;

document.createElement = function (name, options) {
  if (name !== "style") return createElement.call(this, name, options);
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const stand = createElement.call(this, "template"); // shows nothing, wherever it is put
  return Object.defineProperty(stand, "textContent", { set: (rules) => sheet.replaceSync(rules) });
};

HTMLSpanElement.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};
