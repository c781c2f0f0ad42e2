// Return the readability errors of the page, as sentences: a page wider than the window, controls without a name, text
// under buttons, and text with too little contrast in one of the themes.
() => {
  const errors = [];
  const isVisible = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;
  const excessWidth = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (excessWidth > 0) errors.push(`The page is ${excessWidth} px too wide.`);

  const getName = (control) =>
    control.getAttribute("aria-label") || [...(control.labels ?? [])].map((label) => label.textContent).join("") || control.textContent;
  for (const control of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")) {
    if (isVisible(control) && !getName(control).trim()) errors.push(`Without a name: ${control.outerHTML.slice(0, 120)}`);
  }

  // Lines of text, clipped by the elements in which they scroll.
  const lines = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement: parent, textContent } = walker.currentNode;
    if (!textContent.trim() || !isVisible(parent) || parent.closest(".visually-hidden, .summary, option")) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    for (const { left, right, top, bottom } of range.getClientRects()) {
      const line = { parent, text: textContent.trim().slice(0, 40), left, right, top, bottom };
      for (let ancestor = parent; ancestor; ancestor = ancestor.parentElement) {
        if (getComputedStyle(ancestor).overflow === "visible") continue;
        const box = ancestor.getBoundingClientRect();
        line.right = Math.min(line.right, box.right);
        line.bottom = Math.min(line.bottom, box.bottom);
      }
      if (line.right > left && line.bottom > top) lines.push(line);
    }
  }

  for (const button of document.querySelectorAll("main .btn:not(.code .btn, .summary .btn)")) {
    if (!isVisible(button)) continue;
    const { left, right, top, bottom } = button.getBoundingClientRect();
    const isUnder = (line) => line.left < right - 2 && line.right > left + 2 && line.top < bottom - 3 && line.bottom > top + 3;
    const line = lines.find((line) => !button.contains(line.parent) && isUnder(line));
    if (line) errors.push(`The button ${getName(button).trim().slice(0, 40)} covers “${line.text}”.`);
  }

  // WCAG 2.2, 1.4.3: 4.5 to 1, or 3 to 1 for large text. A canvas converts every notation of a color into numbers.
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colors = new Map();
  const parseColor = (notation) => {
    if (!colors.has(notation)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = notation;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      colors.set(notation, [red, green, blue, alpha / 255]);
    }
    return colors.get(notation);
  };
  const blend = ([red, green, blue, alpha], below) => [red, green, blue].map((part, index) => part * alpha + below[index] * (1 - alpha));
  const getLuminance = (color) => {
    const [red, green, blue] = color.map((part) => (part <= 10 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const parents = new Map(lines.map(({ parent, text }) => [parent, text]));
  const root = document.documentElement;
  const originalTheme = root.dataset.bsTheme;
  for (const theme of ["light", "dark"]) {
    root.dataset.bsTheme = theme;
    for (const animation of document.getAnimations()) if (animation instanceof CSSTransition) animation.finish();
    const backgrounds = new Map([[null, [255, 255, 255]]]);
    const getBackground = (element) => {
      if (!backgrounds.has(element)) {
        const own = parseColor(getComputedStyle(element).backgroundColor);
        backgrounds.set(element, blend(own, own[3] < 1 ? getBackground(element.parentElement) : own));
      }
      return backgrounds.get(element);
    };
    for (const [parent, text] of parents) {
      if (parent.closest(":disabled, .disabled")) continue;
      const style = getComputedStyle(parent);
      const background = getBackground(parent);
      const luminances = [getLuminance(blend(parseColor(style.color), background)), getLuminance(background)];
      const contrast = Math.max(...luminances) / Math.min(...luminances);
      const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.5 && style.fontWeight >= 700);
      if (contrast < (isLarge ? 3 : 4.5)) errors.push(`“${text}” has a contrast of ${contrast.toFixed(2)} to 1 in the ${theme} theme.`);
    }
  }
  root.dataset.bsTheme = originalTheme;
  return [...new Set(errors)];
}
