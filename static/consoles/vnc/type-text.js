// "Type text": types what is in the box, key by key in the selected layout.
import { format, texts } from "consoles/texts";
import { formatCharacters } from "vnc/layout";

// `loadSelectedLayout` gives the Layout and its name; `typingQueue` types; `onTyped` gets a sentence when everything was
// typed. Returns a function that stops the typing.
export function prepareTypeText({ form, typingQueue, loadSelectedLayout, onTyped }) {
  const { text, pause, stop } = form.elements;
  const output = form.querySelector("output");
  const bar = form.querySelector("progress");
  const send = form.querySelector("[type=submit]");
  let stopper = null;

  const showResult = (sentence, isError = false) => {
    output.textContent = sentence;
    output.classList.toggle("error-text", isError);
  };
  const setTyping = (isTyping) => {
    stop.hidden = bar.hidden = !isTyping;
    send.disabled = isTyping;
    text.readOnly = isTyping;
  };

  async function write() {
    const { name, layout } = await loadSelectedLayout();
    const { characters, missing } = layout.findTextStrokes(text.value);
    if (missing.length) {
      showResult(format(texts.not_typed, { layout: name, characters: formatCharacters(missing) }), true);
      return;
    }
    stopper = new AbortController();
    const total = characters.length;
    bar.max = total || 1;
    const showProgress = (typed) => {
      bar.value = typed;
      bar.textContent = format(texts.progress, { typed, total });
    };
    showProgress(0);
    showResult(format(texts.typing, { total }));
    const typed = await typingQueue.write(characters, { pause: Number(pause.value), progress: showProgress, signal: stopper.signal });
    if (typed === total) {
      showResult(format(texts.typed, { total }));
      onTyped(output.textContent);
    } else showResult(format(stopper.signal.aborted ? texts.typing_stopped : texts.typing_interrupted, { typed, total }), true);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    setTyping(true);
    try {
      await write();
    } catch (error) {
      showResult(error.message, true);
    } finally {
      setTyping(false);
    }
  });
  const stopTyping = () => stopper?.abort();
  stop.addEventListener("click", stopTyping);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return stopTyping;
}
