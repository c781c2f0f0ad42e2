"""Keyboards, screen readers, phones and full screen: everybody can use a shell."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.ssh_shell.conftest import read_clipboard
from tests.processes.conftest import wait_until

pytestmark = pytest.mark.browser

PHONE = {"width": 360, "height": 740}


def test_the_keyboard_leaves_and_a_screen_reader_reads(shell):
    shell.open()
    shell.page.keyboard.press("Tab")  # the shell's
    expect(shell.page.locator("#terminal textarea")).to_be_focused()
    shell.page.keyboard.press("Control+F6")
    expect(shell.page.get_by_role("link", name="Back to web-1")).to_be_focused()
    shell.button("Options").focus()
    shell.page.keyboard.press("Enter")
    shell.page.get_by_label("Screen reader support").check()
    shell.page.keyboard.press("Escape")
    expect(shell.page.locator("#terminal textarea")).to_be_focused()
    shell.page.keyboard.type("echo to be read\n")
    expect(shell.page.get_by_role("listitem").filter(has_text=re.compile("^to be read"))).to_be_attached()


def test_a_phone_has_the_keys_it_lacks(shell, screenshot):
    shell.page.set_viewport_size(PHONE)
    shell.open()
    assert shell.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    keys = shell.page.get_by_role("group", name="Keys")
    shell.page.keyboard.insert_text("echo first")
    keys.get_by_role("button", name="Ctrl").click()
    expect(keys.get_by_role("button", name="Ctrl")).to_have_attribute("aria-pressed", "true")
    shell.page.keyboard.insert_text("u")  # deletes the line
    expect(keys.get_by_role("button", name="Ctrl")).to_have_attribute("aria-pressed", "false")
    shell.run("echo second")
    shell.shows("^second$")
    assert "first" not in shell.text()
    keys.get_by_role("button", name="Up").click()
    shell.page.keyboard.press("Enter")
    shell.shows("^second\n.*\nsecond$")
    shell.page.keyboard.insert_text("ech")
    keys.get_by_role("button", name="Tab").click()
    expect(shell.page.locator("#terminal textarea")).to_be_focused()
    shell.run("completed")
    shell.shows("^completed$")
    screenshot("keys")


def test_a_finger_copies_what_is_shown(shell):
    shell.page.set_viewport_size(PHONE)
    shell.open()
    shell.run("echo shown on the screen")
    shell.shows("^shown on the screen$")
    shell.button("Copy").click()
    wait_until(lambda: "shown on the screen" in read_clipboard(shell).splitlines(), "the copy")


def test_full_screen(shell):
    shell.open()
    shell.button("Full screen").click()
    expect(shell.button("Full screen")).to_have_attribute("aria-pressed", "true")
    expect(shell.page.locator("#terminal textarea")).to_be_focused()
    shell.button("Full screen").click()
    expect(shell.button("Full screen")).to_have_attribute("aria-pressed", "false")


def test_leaving_an_open_shell_is_asked_for(shell):
    """Ctrl-W deletes a word in a shell, and closes the page in a browser."""
    shell.open()
    shell.run("true")
    with shell.page.expect_event("dialog") as asked:
        shell.page.close(run_before_unload=True)
    assert asked.value.type == "beforeunload"
    asked.value.dismiss()
    shell.run("exit")
    expect(shell.strip).to_contain_text("exit code 0")
    shell.page.close(run_before_unload=True)
