// The texts that scripts of consoles show. The page's template has them, translated, in a JSON block.
export const texts = JSON.parse(document.querySelector("#texts").textContent);

// Returns a text with its {parameters} filled in.
export function format(text, parameters) {
  return text.replaceAll(/\{(\w+)\}/g, (_, name) => parameters[name]);
}
