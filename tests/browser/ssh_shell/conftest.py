"""The shell's page in a real browser, with a real shell behind a real SSH server. Ask 8 of the customer's list: resize,
colours, copy and paste, links, search, and a sentence for each end."""

import re
import time

import pytest
from playwright.sync_api import expect

from tests.browser.ssh_site import SshSite


@pytest.fixture(scope="module")
def ssh_site(tmp_path_factory):
    made = SshSite(tmp_path_factory.mktemp("stage"))
    yield made
    made.close()


@pytest.fixture
def ssh_stage(ssh_site):
    ssh_site.begin()
    yield ssh_site
    ssh_site.end()


class ShellPage:
    """The page, and what a person does there."""

    def __init__(self, page, stage):
        self.page, self.stage = page, stage
        self.status, self.strip = page.locator("#status"), page.locator("#notice")

    def open(self, ready=True):
        self.page.goto(self.stage.url)
        if ready:
            self.ready()
        return self

    def ready(self):
        expect(self.status).to_have_text("Connected")
        expect(self.strip).to_be_hidden()
        expect(self.page.locator("#terminal textarea")).to_be_focused()
        self.shows("guest#")

    def run(self, command):
        self.page.keyboard.insert_text(command)
        self.page.keyboard.press("Enter")

    def text(self):
        return self.page.locator(".xterm-rows").inner_text().replace("\xa0", " ")

    def shows(self, words, seconds=60):
        """Waits until the terminal shows it; a regular expression may be given."""
        end = time.monotonic() + seconds
        while not re.search(words, self.text(), re.M):
            assert time.monotonic() < end, f"{words!r} is not in:\n{self.text()}"
            self.page.wait_for_timeout(50)

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)


@pytest.fixture
def shell(page, ssh_stage):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return ShellPage(page, ssh_stage)


def read_clipboard(shell):
    return shell.page.evaluate("navigator.clipboard.readText()")
