"""Accessibility of the shell page: keyboard, screen reader, phone and full screen."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.ssh_shell.shell_page import read_clipboard
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser

PHONE_VIEWPORT = {"width": 360, "height": 740}


def test_keyboard_leaves_terminal_and_screen_reader_gets_output(shell_page):
    shell_page.open()
    shell_page.page.keyboard.press("Tab")  # goes to the shell
    expect(shell_page.page.locator("#terminal textarea")).to_be_focused()
    shell_page.page.keyboard.press("Control+F6")
    expect(shell_page.page.get_by_role("link", name="Back to web-1")).to_be_focused()
    shell_page.find_button("Options").focus()
    shell_page.page.keyboard.press("Enter")
    shell_page.page.get_by_label("Screen reader support").check()
    shell_page.page.keyboard.press("Escape")
    expect(shell_page.page.locator("#terminal textarea")).to_be_focused()
    shell_page.page.keyboard.type("echo to be read\n")
    expect(shell_page.page.get_by_role("listitem").filter(has_text=re.compile("^to be read"))).to_be_attached()


def test_phone_key_bar_sends_special_keys(shell_page, screenshot):
    shell_page.page.set_viewport_size(PHONE_VIEWPORT)
    shell_page.open()
    assert shell_page.page.evaluate("document.documentElement.scrollWidth") <= PHONE_VIEWPORT["width"]
    keys = shell_page.page.get_by_role("group", name="Keys")
    shell_page.page.keyboard.insert_text("echo first")
    keys.get_by_role("button", name="Ctrl").click()
    expect(keys.get_by_role("button", name="Ctrl")).to_have_attribute("aria-pressed", "true")
    shell_page.page.keyboard.insert_text("u")  # deletes the line
    expect(keys.get_by_role("button", name="Ctrl")).to_have_attribute("aria-pressed", "false")
    shell_page.run("echo second")
    shell_page.wait_for_text("^second$")
    assert "first" not in shell_page.read_text()
    keys.get_by_role("button", name="Up").click()
    shell_page.page.keyboard.press("Enter")
    shell_page.wait_for_text("^second\n.*\nsecond$")
    shell_page.page.keyboard.insert_text("ech")
    keys.get_by_role("button", name="Tab").click()
    expect(shell_page.page.locator("#terminal textarea")).to_be_focused()
    shell_page.run("completed")
    shell_page.wait_for_text("^completed$")
    screenshot("keys")


def test_copy_button_copies_visible_text_on_phone(shell_page):
    shell_page.page.set_viewport_size(PHONE_VIEWPORT)
    shell_page.open()
    shell_page.run("echo shown on the screen")
    shell_page.wait_for_text("^shown on the screen$")
    shell_page.find_button("Copy").click()
    wait_until(lambda: "shown on the screen" in read_clipboard(shell_page).splitlines(), "the copy")


def test_shell_full_screen_can_be_toggled(shell_page):
    shell_page.open()
    shell_page.find_button("Full screen").click()
    expect(shell_page.find_button("Full screen")).to_have_attribute("aria-pressed", "true")
    expect(shell_page.page.locator("#terminal textarea")).to_be_focused()
    shell_page.find_button("Full screen").click()
    expect(shell_page.find_button("Full screen")).to_have_attribute("aria-pressed", "false")


def test_leaving_open_shell_asks_for_confirmation(shell_page):
    """Leaving asks for confirmation, because Ctrl-W deletes a word in a shell and closes the page in a browser."""
    shell_page.open()
    shell_page.run("true")
    with shell_page.page.expect_event("dialog") as dialog:
        shell_page.page.close(run_before_unload=True)
    assert dialog.value.type == "beforeunload"
    dialog.value.dismiss()
    shell_page.run("exit")
    expect(shell_page.notice).to_contain_text("exit code 0")
    shell_page.page.close(run_before_unload=True)
