// What covers the screen while there is none: a heading, why, and how to go on.

const HEADINGS = {
  connecting: () => "Connecting",
  waiting: () => "The console was interrupted",
  closed: () => "The console has closed",
  sign_in: () => "The console has closed",
  off: (name) => `${name} is off`,
};
const BUTTONS = { waiting: ["again"], closed: ["again"], sign_in: ["sign_in"], off: ["start"] };

export function showNotice(notice, { phase, sentence }, name) {
  notice.hidden = phase === "open";
  if (notice.hidden) return;
  notice.querySelector("h2").textContent = HEADINGS[phase](name);
  notice.querySelector("p").textContent = sentence;
  for (const button of notice.querySelectorAll("[data-for]")) {
    button.hidden = !BUTTONS[phase]?.includes(button.dataset.for);
  }
}
