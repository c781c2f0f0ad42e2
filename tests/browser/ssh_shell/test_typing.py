"""Seeing and typing in a shell, in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.processes.conftest import wait_until

pytestmark = pytest.mark.browser


def test_it_types_and_shows(shell, screenshot):
    """SSH-07: in a browser."""
    shell.open()
    shell.run("echo $((6 * 7))")
    shell.shows("^42$")
    expect(shell.page.locator("#ping")).to_have_text(re.compile(r"^\d+ ms$"))
    expect(shell.page).to_have_title("web-1 · Shell")
    shell.run(r"printf '\e]0;root@web-1: /srv\a'")
    expect(shell.page).to_have_title("web-1 · root@web-1: /srv")
    screenshot("open")


def test_colours(shell):
    """True colour, the 256, the sixteen, and the usual attributes; letters of double width stay in their columns."""
    shell.open()
    shell.run(
        r"printf '\e[38;2;255;100;0mtrue\e[0m \e[38;5;200mpalette\e[0m \e[1;4;31mbold\e[0m\n'; echo 漢字 $COLORTERM"
    )
    shell.shows("^true palette bold$")
    assert colour(shell, "true") == "rgb(255, 100, 0)"
    assert colour(shell, "palette") == "rgb(255, 0, 215)"
    bold = shell.page.locator(".xterm-rows span", has_text=re.compile("^bold$"))
    expect(bold).to_have_css("font-weight", "700")
    expect(bold).to_have_css("text-decoration-line", "underline")
    wide = shell.page.locator(".xterm-rows span", has_text="漢字").last
    assert wide.bounding_box()["width"] == pytest.approx(4 * cell(shell), abs=1)


def colour(shell, word):
    return shell.page.locator(".xterm-rows span", has_text=re.compile(f"^{word}$")).evaluate(
        "span => getComputedStyle(span).color"
    )


def cell(shell):
    """The width of a letter."""
    return shell.page.locator(".xterm-screen").bounding_box()["width"] / shell.stage.guest.doors[-1].sizes[-1][0]


def test_the_guest_hears_of_every_size(shell):
    shell.open()
    columns, rows = shell.stage.guest.doors[0].sizes[-1]
    shell.page.set_viewport_size({"width": 800, "height": 500})
    sizes = shell.stage.guest.doors[0].sizes
    wait_until(lambda: sizes[-1][0] < columns and sizes[-1][1] < rows, "a smaller size")
    shell.run("sleep 0.2; stty size")
    shell.shows(f"^{sizes[-1][1]} {sizes[-1][0]}$")


def test_letters_and_colours_are_remembered(shell):
    shell.open()
    columns = shell.stage.guest.doors[0].sizes[-1][0]
    shell.page.keyboard.press("Control+=")
    shell.button("Larger text").click()
    expect(shell.page.locator("#terminal textarea")).to_be_focused()
    wait_until(lambda: shell.stage.guest.doors[0].sizes[-1][0] < columns, "fewer columns")
    shell.button("Options").click()
    shell.page.get_by_label("Colours").select_option("Light")
    expect(shell.page.locator("#terminal")).to_have_css("background-color", "rgb(255, 255, 255)")
    shell.page.keyboard.press("Escape")
    shell.open()
    expect(shell.page.locator("#terminal")).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(shell.page.locator(".xterm-rows")).to_have_css("font-size", "16px")
    shell.page.keyboard.press("Control+0")
    expect(shell.page.locator(".xterm-rows")).to_have_css("font-size", "14px")


def test_a_flood_ends_with_control_c(shell):
    shell.open()
    shell.run("yes floods the terminal")
    shell.shows("floods the terminal\n.*floods the terminal")
    shell.page.wait_for_timeout(2000)  # of it
    shell.page.keyboard.press("Control+c")
    shell.shows(r"\^C[\s\S]*^guest#")
    shell.run("echo still $((1 + 1)) here")
    shell.shows("^still 2 here$")
