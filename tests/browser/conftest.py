"""Debian's chromium, and pages that may not complain: anything on the browser's console fails the test."""

import shutil
from contextlib import suppress

import pytest
from playwright.sync_api import Error, Page, expect, sync_playwright

from panel.core.config import ROOT

CHROMIUM_FLAGS = (
    "--no-sandbox --disable-gpu --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)

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
"""Nothing can be pressed before the page's scripts are there: a menu would not open, and a person would press again."""

expect.set_options(timeout=60_000)  # never what a test measures


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A page leaves before the panel that it asks again and again ends: it would complain."""
    try:
        return (yield)
    finally:
        for opened in item.funcargs.values():
            if isinstance(opened, Page):
                with suppress(Error):  # what went wrong is told by the test
                    opened.goto("about:blank")


@pytest.fixture(scope="session")
def browser():
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "The browser tests need Debian's package chromium."
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=CHROMIUM_FLAGS.split())
        yield running
        running.close()


def open_window(browser, **options):
    """Another browser: nothing that was kept is there."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce", **options})
    context.add_init_script(WAIT_UNTIL_READY_SCRIPT)
    return context


@pytest.fixture
def console_errors():
    """What the page printed. A test takes out what it provoked: browsers print every request that failed."""
    return []


@pytest.fixture
def page(browser, console_errors):
    """A new browser. What it prints, and what its policy blocks, is an error."""
    context = open_window(browser)
    opened = context.new_page()
    opened.on("console", lambda said: console_errors.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: console_errors.append(str(error)))
    yield opened
    context.close()
    assert console_errors == []


@pytest.fixture
def screenshot(page, request):
    """Keeps a picture of the page, for people to look at."""
    folder = ROOT / "tests" / "shots"
    folder.mkdir(exist_ok=True)
    return lambda name: page.screenshot(path=folder / f"{request.node.name}-{name}.png")
