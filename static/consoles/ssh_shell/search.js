// The search box: searches the whole scrollback of the terminal.
import { SearchAddon } from "vendor/addon-search";
import { format, texts } from "consoles/texts";
import { terminal } from "ssh_shell/terminal";

const DECORATIONS = {
  matchBackground: "#7a5b00",
  matchOverviewRuler: "#d9a43b",
  activeMatchBackground: "#c2410c",
  activeMatchColorOverviewRuler: "#c2410c",
};

const box = document.querySelector("#find");
const query = box.querySelector("input[type=search]");
const matchCase = box.querySelector("[data-case]");
const output = box.querySelector("output");
const search = new SearchAddon();
terminal.loadAddon(search);

const options = () => ({ decorations: DECORATIONS, caseSensitive: matchCase.checked });
const findPrevious = () => search.findPrevious(query.value, options());
const findNext = () => search.findNext(query.value, options());

/** Starts at the end, because the newest lines are searched most. */
function startSearch() {
  terminal.clearSelection();
  if (query.value) findPrevious();
  else search.clearDecorations();
}

export function openSearch() {
  box.hidden = false;
  const selected = terminal.getSelection();
  if (selected && !selected.includes("\n")) query.value = selected;
  query.select();
  query.focus();
  startSearch();
}

function close() {
  box.hidden = true;
  search.clearDecorations();
  terminal.focus();
}

search.onDidChangeResults(({ resultIndex, resultCount }) => {
  if (!query.value) output.value = "";
  else if (!resultCount) output.value = texts.not_found;
  else output.value = resultIndex < 0 ? `${resultCount}+` : format(texts.match, { number: resultIndex + 1, total: resultCount });
});

query.addEventListener("input", startSearch);
matchCase.addEventListener("change", startSearch);
box.querySelector("[data-up]").addEventListener("click", findPrevious);
box.querySelector("[data-down]").addEventListener("click", findNext);
box.querySelector("[data-close]").addEventListener("click", close);
box.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
  else if (event.key === "Enter" && event.target === query) event.shiftKey ? findNext() : findPrevious();
  else return;
  event.preventDefault();
});
