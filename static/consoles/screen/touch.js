// Keys on the screen: buttons for the keys that phones lack, and a hidden field that opens the phone's own keyboard.

const NAMED = new Set([
  "Enter", "Backspace", "Tab", "Escape", "Delete", "Home", "End", "PageUp", "PageDown",
  "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown",
]);
const PADDING = "_".repeat(64); // something to delete, or phones do not tell of backspace

// `write(text)` types what the phone's keyboard wrote; `typist` keeps the order.
export function prepareTouch({ row, field, keys, typist, write, focus }) {
  const fill = () => {
    field.value = PADDING;
    field.setSelectionRange(PADDING.length, PADDING.length);
  };

  const press = (code) => typist.next(() => keys.press(code));
  const hold = (code) => typist.next(() => keys.toggle(code));

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
    if (event.isComposing || !NAMED.has(event.key)) return;
    event.preventDefault();
    press(event.key);
  });
  field.addEventListener("input", (event) => {
    if (event.isComposing) return;
    take();
  });
  field.addEventListener("compositionend", () => take());

  // What the field has more, or less, than before is what was written.
  function take() {
    const now = field.value;
    let same = 0;
    while (same < PADDING.length && now[same] === PADDING[same]) same += 1;
    for (let gone = PADDING.length - same; gone > 0; gone -= 1) press("Backspace");
    if (now.length > same) write(now.slice(same)).then(() => typist.next(() => keys.release()));
    fill();
  }
}
