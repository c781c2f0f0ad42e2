"""Debian's chromium, and pages whose console errors and warnings fail the test."""

import shutil
from contextlib import suppress

import pytest
from playwright.sync_api import Error, Page, expect, sync_playwright

from panel.core.config import ROOT
from tests.browser.running_installation import running_installation  # noqa: F401  (fixture)
from tests.browser.windows import collect_console_errors, open_window
from tests.support.panel_processes import fresh_installation  # noqa: F401  (fixture)

CHROMIUM_FLAGS = (
    "--no-sandbox --disable-gpu --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)


expect.set_options(timeout=60_000)  # generous, because no test measures it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Leave the page before the panel stops, because failed polls would be console errors."""
    try:
        return (yield)
    finally:
        for value in item.funcargs.values():
            if isinstance(value, Page):
                with suppress(Error):  # the test itself reports the failure
                    value.goto("about:blank")


@pytest.fixture(scope="session")
def browser():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "The browser tests need Debian's package chromium."
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=CHROMIUM_FLAGS.split())
        yield chromium
        chromium.close()


@pytest.fixture
def console_errors():
    """Collect the page's console errors. A test removes expected ones: browsers report every failed request."""
    return []


@pytest.fixture
def page(browser, console_errors):
    """Yield a page in a new browser context. Console errors and policy violations fail the test."""
    context = open_window(browser)
    yield collect_console_errors(context.new_page(), console_errors)
    context.close()
    assert console_errors == []


@pytest.fixture
def screenshot(page, request):
    """Return a function that saves a screenshot of the page for manual review."""
    folder = ROOT / "tests" / "shots"
    folder.mkdir(exist_ok=True)
    return lambda name: page.screenshot(path=folder / f"{request.node.name}-{name}.png")
