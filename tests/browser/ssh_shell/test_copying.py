"""Copying, pasting, searching and links in a shell, in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.ssh_shell.shell_page import read_clipboard
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser


def copy_text(shell_page, text):
    """Put a text into the clipboard, as another program would."""
    shell_page.page.evaluate("text => navigator.clipboard.writeText(text)", text)


def test_shell_copies_selection(shell_page):
    shell_page.open()
    shell_page.run("echo somewhere_to_click")
    shell_page.wait_for_text("^somewhere_to_click$")
    bounding_box = shell_page.page.locator(
        ".xterm-rows > div", has_text=re.compile("^somewhere_to_click")
    ).bounding_box()
    spot = (bounding_box["x"] + 20, bounding_box["y"] + bounding_box["height"] / 2)
    shell_page.page.mouse.dblclick(*spot)
    shell_page.page.keyboard.press("Control+Shift+C")
    wait_until(lambda: read_clipboard(shell_page) == "somewhere_to_click", "the copy")

    copy_text(shell_page, "nothing yet")
    # The browser's context menu copies the text field at this position.
    shell_page.page.mouse.click(*spot, button="right")
    expect(shell_page.page.locator("#terminal textarea")).to_have_value("somewhere_to_click")
    shell_page.page.mouse.click(spot[0] + 300, spot[1])
    shell_page.page.mouse.dblclick(*spot)
    assert read_clipboard(shell_page) == "nothing yet"

    shell_page.find_button("Options").click()
    shell_page.page.get_by_label("Copy on selection").check()
    shell_page.page.keyboard.press("Escape")
    shell_page.page.mouse.dblclick(*spot)
    wait_until(lambda: read_clipboard(shell_page) == "somewhere_to_click", "the copy")


def test_paste_of_lines_asks_for_confirmation_without_bracketed_paste(shell_page, screenshot):
    shell_page.open()
    copy_text(shell_page, "echo one\necho two\n")
    shell_page.page.keyboard.press("Control+Shift+V")  # bash has turned bracketed paste on
    shell_page.wait_for_text("echo one\n.*echo two")
    expect(shell_page.page.locator("#paste")).to_be_hidden()
    shell_page.page.keyboard.press("Control+c")

    shell_page.run("clear; head -2 | tac")
    shell_page.wait_for_text(r"\A\s*\Z")
    shell_page.page.keyboard.press("Control+Shift+V")
    question = shell_page.page.get_by_role("dialog", name="Paste into the terminal?")
    expect(question).to_contain_text("These are 2 lines.")
    screenshot("question")
    shell_page.page.keyboard.press("Escape")
    expect(shell_page.page.locator("#terminal textarea")).to_be_focused()
    assert "echo" not in shell_page.read_text()

    shell_page.find_button("Paste").first.click()
    question.get_by_role("textbox").fill("changed\nbefore\n")
    question.get_by_role("button", name="Paste").click()
    shell_page.wait_for_text("^before\nchanged$")


def test_pasted_text_cannot_end_bracketed_paste(shell_page):
    shell_page.open()
    shell_page.run(r"printf '\e[?2004h'; echo bracketed | tr a-z A-Z; cat -v")
    shell_page.wait_for_text("^BRACKETED$")
    copy_text(shell_page, "harmless\x1b[201~\nnot run\n")
    shell_page.page.keyboard.press("Control+Shift+V")
    shell_page.page.keyboard.press("Enter")
    shell_page.wait_for_text(r"\^\[\[200~harmless\[201~\nnot run\n\^\[\[201~")


def test_large_text_is_pasted_completely(shell_page):
    """The text is larger than one message of the console process."""
    shell_page.open()
    shell_page.run(
        "stty -echo; echo ready | tr a-z A-Z; cat > /dev/null & cat | { head -c 400000 | tr -d '\\n' | wc -c; }"
    )
    shell_page.wait_for_text("^READY$")  # by then bash has turned bracketed paste off
    copy_text(shell_page, ("x" * 999 + "\n") * 400)
    shell_page.page.keyboard.press("Control+Shift+V")
    shell_page.page.get_by_role("dialog").get_by_role("button", name="Paste").click()
    shell_page.wait_for_text("^399600$")


def test_shell_search_finds_output(shell_page, screenshot):
    shell_page.open()
    shell_page.run("seq 1 300")
    shell_page.wait_for_text("^300$")
    shell_page.page.keyboard.press("Control+Shift+F")
    box = shell_page.page.get_by_role("searchbox", name="Search in terminal")
    expect(box).to_be_focused()
    box.fill("299")
    expect(shell_page.page.locator("#find output")).to_have_text("1 of 1")
    shell_page.wait_for_text("^299$")
    box.fill("29")
    expect(shell_page.page.locator("#find output")).to_have_text("13 of 13")
    box.press("Enter")
    expect(shell_page.page.locator("#find output")).to_have_text("12 of 13")
    screenshot("found")
    box.fill("nowhere")
    expect(shell_page.page.locator("#find output")).to_have_text("Not found")
    box.press("Escape")
    expect(shell_page.page.locator("#terminal textarea")).to_be_focused()


def test_shell_links_open_in_new_tab(shell_page):
    shell_page.open()
    shell_page.page.context.route("https://docs.example.com/**", lambda route: route.fulfill(body="the page"))
    shell_page.run("clear; echo https://docs.example.com/guide.")
    shell_page.wait_for_text("^https")
    row = shell_page.page.locator(".xterm-rows > div", has_text=re.compile("^https")).bounding_box()
    shell_page.page.mouse.move(row["x"] + 40, row["y"] + 5)
    shell_page.page.mouse.move(row["x"] + 45, row["y"] + 5)
    expect(shell_page.page.locator("#link-target")).to_have_text("https://docs.example.com/guide")
    with shell_page.page.context.expect_page() as opened:
        shell_page.page.mouse.click(row["x"] + 45, row["y"] + 5)
    assert opened.value.url == "https://docs.example.com/guide"
    assert opened.value.evaluate("window.opener") is None
