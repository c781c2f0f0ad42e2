// "Type text": what is in the box is written by key presses in the chosen layout.
import { named } from "screen/layout";

// `layout` gives the chosen Layout and its name; `typist` writes. Returns a function that stops the typing.
export function prepareText({ form, typist, layout }) {
  const { text, pause, stop } = form.elements;
  const said = form.querySelector("output");
  const bar = form.querySelector("progress");
  const send = form.querySelector("[type=submit]");
  let stopper = null;

  const say = (sentence, wrong = false) => {
    said.textContent = sentence;
    said.classList.toggle("wrong", wrong);
  };
  const working = (is) => {
    stop.hidden = bar.hidden = !is;
    send.disabled = is;
    text.readOnly = is;
  };

  async function write() {
    const chosen = await layout();
    const { characters, missing } = chosen.layout.spell(text.value);
    if (missing.length) {
      say(`The layout ${chosen.name} does not have ${named(missing)}. Nothing was typed: change the text, or the layout.`, true);
      return;
    }
    stopper = new AbortController();
    bar.max = characters.length || 1;
    const count = (written) => {
      bar.value = written;
      bar.textContent = `${written} of ${characters.length}`;
    };
    count(0);
    say(`Typing ${characters.length} characters …`);
    const options = { pause: Number(pause.value), progress: count, signal: stopper.signal };
    const written = await typist.write(characters, options);
    if (written === characters.length) say(`Typed ${written} characters.`);
    else say(`${stopper.signal.aborted ? "Stopped" : "The console closed"} after ${written} of ${characters.length} characters.`, true);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    working(true);
    try {
      await write();
    } catch (error) {
      say(error.message, true);
    } finally {
      working(false);
    }
  });
  const halt = () => stopper?.abort();
  stop.addEventListener("click", halt);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return halt;
}
