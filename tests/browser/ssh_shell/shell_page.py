"""The shell page, with the actions of a user."""

import re
import time

from playwright.sync_api import expect


class ShellPage:
    """The shell page, with the actions of a user."""

    def __init__(self, page, site):
        self.page, self.site = page, site
        self.status, self.notice = page.locator("#status"), page.locator("#notice")

    def open(self, wait_until_ready=True):
        self.page.goto(self.site.url)
        if wait_until_ready:
            self.wait_until_ready()
        return self

    def wait_until_ready(self):
        expect(self.status).to_have_text("Connected")
        expect(self.notice).to_be_hidden()
        expect(self.page.locator("#terminal textarea")).to_be_focused()
        self.wait_for_text("guest#")

    def run(self, command):
        self.page.keyboard.insert_text(command)
        self.page.keyboard.press("Enter")

    def read_text(self):
        return self.page.locator(".xterm-rows").inner_text().replace("\xa0", " ")

    def wait_for_text(self, pattern, seconds=60):
        """Wait until the terminal shows text that matches the regular expression."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.read_text(), re.M):
            assert time.monotonic() < end, f"{pattern!r} is not in:\n{self.read_text()}"
            self.page.wait_for_timeout(50)

    def find_button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)


def read_clipboard(shell_page):
    return shell_page.page.evaluate("navigator.clipboard.readText()")
