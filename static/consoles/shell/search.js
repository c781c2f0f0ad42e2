// The search box: finds in everything the terminal still holds.
import { SearchAddon } from "vendor/addon-search";
import { terminal } from "shell/terminal";

const MARKS = {
  matchBackground: "#7a5b00",
  matchOverviewRuler: "#d9a43b",
  activeMatchBackground: "#c2410c",
  activeMatchColorOverviewRuler: "#c2410c",
};

const box = document.querySelector("#find");
const words = box.querySelector("input[type=search]");
const exact = box.querySelector("[data-case]");
const found = box.querySelector("output");
const search = new SearchAddon();
terminal.loadAddon(search);

const options = () => ({ decorations: MARKS, caseSensitive: exact.checked });
const up = () => search.findPrevious(words.value, options());
const down = () => search.findNext(words.value, options());

/** From the end, where what is looked for mostly is. */
function begin() {
  terminal.clearSelection();
  if (words.value) up();
  else search.clearDecorations();
}

export function open() {
  box.hidden = false;
  const selected = terminal.getSelection();
  if (selected && !selected.includes("\n")) words.value = selected;
  words.select();
  words.focus();
  begin();
}

function close() {
  box.hidden = true;
  search.clearDecorations();
  terminal.focus();
}

search.onDidChangeResults(({ resultIndex, resultCount }) => {
  if (!words.value) found.value = "";
  else if (!resultCount) found.value = "Not found";
  else found.value = resultIndex < 0 ? `${resultCount}+` : `${resultIndex + 1} of ${resultCount}`;
});

words.addEventListener("input", begin);
exact.addEventListener("change", begin);
box.querySelector("[data-up]").addEventListener("click", up);
box.querySelector("[data-down]").addEventListener("click", down);
box.querySelector("[data-close]").addEventListener("click", close);
box.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
  else if (event.key === "Enter" && event.target === words) event.shiftKey ? down() : up();
  else return;
  event.preventDefault();
});
