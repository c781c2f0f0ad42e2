// What is wrong with how the page looks, as sentences: too wide, controls without a name, faint words, words under buttons.
() => {
  const wrong = [];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) wrong.push(`The page is ${wide} px too wide.`);

  const name = (control) =>
    control.getAttribute("aria-label") || [...(control.labels ?? [])].map((label) => label.textContent).join("") || control.textContent;
  for (const control of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")) {
    if (shown(control) && !name(control).trim()) wrong.push(`Without a name: ${control.outerHTML.slice(0, 120)}`);
  }

  // Lines of words, as far as they are not cut off by what they scroll in.
  const lines = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement: parent, textContent } = walker.currentNode;
    if (!textContent.trim() || !shown(parent) || parent.closest(".visually-hidden, .summary, option")) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    for (const { left, right, top, bottom } of range.getClientRects()) {
      const line = { parent, text: textContent.trim().slice(0, 40), left, right, top, bottom };
      for (let box = parent; box; box = box.parentElement) {
        if (getComputedStyle(box).overflow === "visible") continue;
        const edge = box.getBoundingClientRect();
        line.right = Math.min(line.right, edge.right);
        line.bottom = Math.min(line.bottom, edge.bottom);
      }
      if (line.right > left && line.bottom > top) lines.push(line);
    }
  }

  for (const button of document.querySelectorAll("main .btn:not(.code .btn, .summary .btn)")) {
    if (!shown(button)) continue;
    const { left, right, top, bottom } = button.getBoundingClientRect();
    const under = (line) => line.left < right - 2 && line.right > left + 2 && line.top < bottom - 3 && line.bottom > top + 3;
    const line = lines.find((line) => !button.contains(line.parent) && under(line));
    if (line) wrong.push(`The button ${name(button).trim().slice(0, 40)} lies on “${line.text}”.`);
  }

  // WCAG 2.2, 1.4.3: 4.5 to 1, or 3 to 1 for large letters. A canvas turns every way to write a colour into numbers.
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colour = (words) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = words;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = ([red, green, blue, alpha], below) => [red, green, blue].map((part, at) => part * alpha + below[at] * (1 - alpha));
  const ground = (element) => {
    if (!element) return [255, 255, 255];
    const own = colour(getComputedStyle(element).backgroundColor);
    return over(own, own[3] < 1 ? ground(element.parentElement) : own);
  };
  const light = (parts) => {
    const [red, green, blue] = parts.map((part) => (part <= 10 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  for (const { parent, text } of lines) {
    if (parent.closest(":disabled, .disabled")) continue;
    const style = getComputedStyle(parent);
    const below = ground(parent);
    const [more, less] = [light(over(colour(style.color), below)), light(below)].sort((a, b) => b - a);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.5 && style.fontWeight >= 700);
    if (more / less < (large ? 3 : 4.5)) wrong.push(`“${text}” is faint: ${(more / less).toFixed(2)} to 1.`);
  }
  return [...new Set(wrong)];
}
