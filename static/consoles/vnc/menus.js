// Menus and sheets that a button of the bar opens (popovertarget). The arrow keys move through menus.

const listItems = (menu) => [...menu.querySelectorAll("[role^=menuitem]:not(:disabled)")];

function positionPopover(popover, button) {
  const { left, bottom } = button.getBoundingClientRect();
  popover.style.top = `${bottom + 4}px`;
  popover.style.maxHeight = `${innerHeight - bottom - 8}px`;
  popover.style.left = `${Math.max(4, Math.min(left, innerWidth - popover.offsetWidth - 4))}px`;
}

function moveFocus(event, menu) {
  const all = listItems(menu);
  const at = all.indexOf(document.activeElement);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1 + (at < 0), Home: 0, End: -1 }[event.key];
  if (next !== undefined) {
    event.preventDefault();
    all.at(next % all.length)?.focus();
  } else if (event.key === "Tab") {
    menu.hidePopover();
  }
}

// `onMenuItem` is called after an item was clicked and its menu has closed.
export function prepareMenus({ onMenuItem = () => {} } = {}) {
  for (const popover of document.querySelectorAll("[popover]")) {
    const button = document.querySelector(`[popovertarget="${popover.id}"]`);
    const isMenu = popover.getAttribute("role") === "menu";
    button.setAttribute("aria-expanded", "false");
    popover.addEventListener("toggle", ({ newState }) => {
      const open = newState === "open";
      button.setAttribute("aria-expanded", String(open));
      if (!open) return;
      positionPopover(popover, button);
      (isMenu ? listItems(popover)[0] : popover.querySelector("textarea, input, select, button"))?.focus();
    });
    popover.addEventListener("keydown", (event) => {
      if (isMenu) moveFocus(event, popover);
      else if (event.key === "Escape") close(popover, button);
    });
    popover.addEventListener("click", ({ target }) => {
      if (target.closest("[data-close]")) close(popover, button);
      const item = isMenu && target.closest("[role^=menuitem]");
      if (!item) return;
      popover.hidePopover();
      onMenuItem(item);
    });
    addEventListener("resize", () => popover.matches(":popover-open") && positionPopover(popover, button));
  }
}

function close(popover, button) {
  popover.hidePopover();
  button.focus();
}
