"""Copying, pasting, searching and links in a shell, in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.ssh_shell.conftest import read_clipboard
from tests.processes.conftest import wait_until

pytestmark = pytest.mark.browser


def copy_text(shell, text):
    """Puts a text into the clipboard, as another program would."""
    shell.page.evaluate("text => navigator.clipboard.writeText(text)", text)


def test_shell_copies_selection(shell):
    shell.open()
    shell.run("echo somewhere_to_click")
    shell.shows("^somewhere_to_click$")
    word = shell.page.locator(".xterm-rows > div", has_text=re.compile("^somewhere_to_click")).bounding_box()
    spot = (word["x"] + 20, word["y"] + word["height"] / 2)
    shell.page.mouse.dblclick(*spot)
    shell.page.keyboard.press("Control+Shift+C")
    wait_until(lambda: read_clipboard(shell) == "somewhere_to_click", "the copy")

    copy_text(shell, "nothing yet")
    shell.page.mouse.click(*spot, button="right")  # the browser's own menu copies what is in the field below it
    expect(shell.page.locator("#terminal textarea")).to_have_value("somewhere_to_click")
    shell.page.mouse.click(spot[0] + 300, spot[1])
    shell.page.mouse.dblclick(*spot)
    assert read_clipboard(shell) == "nothing yet"

    shell.button("Options").click()
    shell.page.get_by_label("Copy on selection").check()
    shell.page.keyboard.press("Escape")
    shell.page.mouse.dblclick(*spot)
    wait_until(lambda: read_clipboard(shell) == "somewhere_to_click", "the copy")


def test_pasting_asks_where_each_line_would_run(shell, screenshot):
    shell.open()
    copy_text(shell, "echo one\necho two\n")
    shell.page.keyboard.press("Control+Shift+V")  # bash says that it can tell pasted text from typed
    shell.shows("echo one\n.*echo two")
    expect(shell.page.locator("#paste")).to_be_hidden()
    shell.page.keyboard.press("Control+c")

    shell.run("clear; head -2 | tac")
    shell.shows(r"\A\s*\Z")
    shell.page.keyboard.press("Control+Shift+V")
    question = shell.page.get_by_role("dialog", name="Paste into the terminal?")
    expect(question).to_contain_text("These are 2 lines.")
    screenshot("question")
    shell.page.keyboard.press("Escape")
    expect(shell.page.locator("#terminal textarea")).to_be_focused()
    assert "echo" not in shell.text()

    shell.button("Paste").first.click()
    question.get_by_role("textbox").fill("changed\nbefore\n")
    question.get_by_role("button", name="Paste").click()
    shell.shows("^before\nchanged$")


def test_pasted_text_cannot_leave_its_bracket(shell):
    shell.open()
    shell.run(r"printf '\e[?2004h'; echo bracketed | tr a-z A-Z; cat -v")
    shell.shows("^BRACKETED$")
    copy_text(shell, "harmless\x1b[201~\nnot run\n")
    shell.page.keyboard.press("Control+Shift+V")
    shell.page.keyboard.press("Enter")
    shell.shows(r"\^\[\[200~harmless\[201~\nnot run\n\^\[\[201~")


def test_a_large_text_is_pasted_whole(shell):
    """More than the console process takes in one message."""
    shell.open()
    shell.run("stty -echo; echo ready | tr a-z A-Z; cat > /dev/null & cat | { head -c 400000 | tr -d '\\n' | wc -c; }")
    shell.shows("^READY$")  # by then bash has taken back that it tells pasted text from typed
    copy_text(shell, ("x" * 999 + "\n") * 400)
    shell.page.keyboard.press("Control+Shift+V")
    shell.page.get_by_role("dialog").get_by_role("button", name="Paste").click()
    shell.shows("^399600$")


def test_shell_search_finds_output(shell, screenshot):
    shell.open()
    shell.run("seq 1 300")
    shell.shows("^300$")
    shell.page.keyboard.press("Control+Shift+F")
    box = shell.page.get_by_role("searchbox", name="Search in terminal")
    expect(box).to_be_focused()
    box.fill("299")
    expect(shell.page.locator("#find output")).to_have_text("1 of 1")
    shell.shows("^299$")
    box.fill("29")
    expect(shell.page.locator("#find output")).to_have_text("13 of 13")
    box.press("Enter")
    expect(shell.page.locator("#find output")).to_have_text("12 of 13")
    screenshot("found")
    box.fill("nowhere")
    expect(shell.page.locator("#find output")).to_have_text("Not found")
    box.press("Escape")
    expect(shell.page.locator("#terminal textarea")).to_be_focused()


def test_shell_links_open_in_new_tab(shell):
    shell.open()
    shell.page.context.route("https://docs.example.com/**", lambda route: route.fulfill(body="the page"))
    shell.run("clear; echo https://docs.example.com/guide.")
    shell.shows("^https")
    row = shell.page.locator(".xterm-rows > div", has_text=re.compile("^https")).bounding_box()
    shell.page.mouse.move(row["x"] + 40, row["y"] + 5)
    shell.page.mouse.move(row["x"] + 45, row["y"] + 5)
    expect(shell.page.locator("#link-target")).to_have_text("https://docs.example.com/guide")
    with shell.page.context.expect_page() as opened:
        shell.page.mouse.click(row["x"] + 45, row["y"] + 5)
    assert opened.value.url == "https://docs.example.com/guide"
    assert opened.value.evaluate("window.opener") is None
