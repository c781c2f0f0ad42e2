// On-screen keys: buttons for the keys that phones lack, and a hidden field that opens the phone's own keyboard.

const NAMED_KEYS = new Set([
  "Enter", "Backspace", "Tab", "Escape", "Delete", "Home", "End", "PageUp", "PageDown",
  "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown",
]);
const PADDING = "_".repeat(64); // phones report backspace only when there is something to delete

// `write(text)` types what was entered with the phone's keyboard; `typingQueue` keeps the order.
export function prepareTouch({ row, field, keys, typingQueue, write, focus }) {
  const fill = () => {
    field.value = PADDING;
    field.setSelectionRange(PADDING.length, PADDING.length);
  };

  const press = (code) => typingQueue.next(() => keys.press(code));
  const hold = (code) => typingQueue.next(() => keys.toggle(code));

  row.addEventListener("mousedown", (event) => event.preventDefault()); // the focus, and a phone's keyboard, stay
  row.addEventListener("click", ({ target }) => {
    const { dataset } = target.closest("button") ?? row;
    if (dataset.hold) hold(dataset.hold);
    if (dataset.press) press(dataset.press);
    if (dataset.open !== undefined) {
      if (document.activeElement === field) focus();
      else field.focus();
    }
  });
  keys.addEventListener("held", () => {
    for (const button of row.querySelectorAll("[data-hold]")) {
      button.setAttribute("aria-pressed", String(keys.held.has(button.dataset.hold)));
    }
  });

  field.addEventListener("focus", fill);
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || !NAMED_KEYS.has(event.key)) return;
    event.preventDefault();
    press(event.key);
  });
  field.addEventListener("input", (event) => {
    if (event.isComposing) return;
    typeInput();
  });
  field.addEventListener("compositionend", () => typeInput());

  // Types the difference between the field and the padding.
  function typeInput() {
    const value = field.value;
    let matching = 0;
    while (matching < PADDING.length && value[matching] === PADDING[matching]) matching += 1;
    for (let deleted = PADDING.length - matching; deleted > 0; deleted -= 1) press("Backspace");
    if (value.length > matching) write(value.slice(matching)).then(() => typingQueue.next(() => keys.release()));
    fill();
  }
}
