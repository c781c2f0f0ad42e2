// The notice over the view while there is no connection: a heading, the reason, and what can be done.
import { format, texts } from "consoles/texts";

const BUTTONS = { waiting: ["reopen"], closed: ["reopen"], sign_in: ["sign_in"], off: ["start"] };

export function showNotice(notice, { phase, sentence }, name) {
  notice.hidden = phase === "open";
  if (notice.hidden) return;
  notice.querySelector("h2").textContent = format(texts.headings[phase], { name });
  notice.querySelector("p").textContent = sentence;
  for (const button of notice.querySelectorAll("[data-action]")) {
    button.hidden = !BUTTONS[phase]?.includes(button.dataset.action);
  }
}
