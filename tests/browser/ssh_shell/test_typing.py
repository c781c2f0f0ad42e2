"""Input and output of a shell in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser


def test_shell_shows_output_and_title(shell_page, screenshot):
    """SSH-07"""
    shell_page.open()
    shell_page.run("echo $((6 * 7))")
    shell_page.wait_for_text("^42$")
    expect(shell_page.page.locator("#ping")).to_have_text(re.compile(r"^\d+ ms$"))
    expect(shell_page.page).to_have_title("web-1 · Shell")
    shell_page.run(r"printf '\e]0;root@web-1: /srv\a'")
    expect(shell_page.page).to_have_title("web-1 · root@web-1: /srv")
    screenshot("open")


def test_shell_shows_colors_and_wide_characters(shell_page):
    """True color, 256 colors, 16 colors, bold and underline; wide characters take two columns."""
    shell_page.open()
    shell_page.run(
        r"printf '\e[38;2;255;100;0mtrue\e[0m \e[38;5;200mpalette\e[0m \e[1;4;31mbold\e[0m\n'; echo 漢字 $COLORTERM"
    )
    shell_page.wait_for_text("^true palette bold$")
    assert find_color(shell_page, "true") == "rgb(255, 100, 0)"
    assert find_color(shell_page, "palette") == "rgb(255, 0, 215)"
    bold = shell_page.page.locator(".xterm-rows span", has_text=re.compile("^bold$"))
    expect(bold).to_have_css("font-weight", "700")
    expect(bold).to_have_css("text-decoration-line", "underline")
    wide = shell_page.page.locator(".xterm-rows span", has_text="漢字").last
    assert wide.bounding_box()["width"] == pytest.approx(4 * measure_cell_width(shell_page), abs=1)


def find_color(shell_page, text):
    return shell_page.page.locator(".xterm-rows span", has_text=re.compile(f"^{text}$")).evaluate(
        "span => getComputedStyle(span).color"
    )


def measure_cell_width(shell_page):
    """Return the width of a character cell in pixels."""
    return (
        shell_page.page.locator(".xterm-screen").bounding_box()["width"]
        / shell_page.site.guest.interfaces[-1].sizes[-1][0]
    )


def test_resize_is_sent_to_the_guest(shell_page):
    shell_page.open()
    columns, rows = shell_page.site.guest.interfaces[0].sizes[-1]
    shell_page.page.set_viewport_size({"width": 800, "height": 500})
    sizes = shell_page.site.guest.interfaces[0].sizes
    wait_until(lambda: sizes[-1][0] < columns and sizes[-1][1] < rows, "a smaller size")
    shell_page.run("sleep 0.2; stty size")
    shell_page.wait_for_text(f"^{sizes[-1][1]} {sizes[-1][0]}$")


def test_font_size_and_color_scheme_are_remembered(shell_page):
    shell_page.open()
    columns = shell_page.site.guest.interfaces[0].sizes[-1][0]
    shell_page.page.keyboard.press("Control+=")
    shell_page.find_button("Larger text").click()
    expect(shell_page.page.locator("#terminal textarea")).to_be_focused()
    wait_until(lambda: shell_page.site.guest.interfaces[0].sizes[-1][0] < columns, "fewer columns")
    shell_page.find_button("Options").click()
    shell_page.page.get_by_label("Colors").select_option("Light")
    expect(shell_page.page.locator("#terminal")).to_have_css("background-color", "rgb(255, 255, 255)")
    shell_page.page.keyboard.press("Escape")
    shell_page.open()
    expect(shell_page.page.locator("#terminal")).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(shell_page.page.locator(".xterm-rows")).to_have_css("font-size", "16px")
    shell_page.page.keyboard.press("Control+0")
    expect(shell_page.page.locator(".xterm-rows")).to_have_css("font-size", "14px")


def test_control_c_stops_continuous_output(shell_page):
    shell_page.open()
    shell_page.run("yes floods the terminal")
    shell_page.wait_for_text("floods the terminal\n.*floods the terminal")
    shell_page.page.wait_for_timeout(2000)  # of output
    shell_page.page.keyboard.press("Control+c")
    shell_page.wait_for_text(r"\^C[\s\S]*^guest#")
    shell_page.run("echo still $((1 + 1)) here")
    shell_page.wait_for_text("^still 2 here$")
