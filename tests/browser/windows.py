"""Windows of the browser."""

WAIT_UNTIL_READY_SCRIPT = """
const hold = () => document.documentElement?.style.setProperty("pointer-events", "none");
hold();
const early = new MutationObserver(hold);
early.observe(document, { childList: true });
document.addEventListener("DOMContentLoaded", () => {
  early.disconnect();
  document.documentElement.style.removeProperty("pointer-events");
});
"""
"""Disables pointer events until the page's scripts have loaded: earlier clicks would have no effect."""


def open_window(browser, **options):
    """Open a new browser context without cookies and stored data."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce", **options})
    context.add_init_script(WAIT_UNTIL_READY_SCRIPT)
    return context


def collect_console_errors(page, errors):
    """Append the console errors and warnings of the page to `errors`. Return the page."""
    page.on("console", lambda entry: errors.append(entry.text) if entry.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return page
