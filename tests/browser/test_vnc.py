"""The VNC console page in a real browser: input, messages, and reconnecting after an interruption."""

import re
import socket
import time
from string import ascii_letters

import pytest
from playwright.sync_api import expect

from consoles import close_codes
from panel.schemas.constants import KEYMAPS
from tests.browser.vnc_machine import HEIGHT, WIDTH, VncMachine
from tests.browser.vnc_site import FakePanel
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.processes]


@pytest.fixture
def machine():
    machine = VncMachine()
    yield machine
    machine.close()


@pytest.fixture
def panel(machine):
    panel = FakePanel(machine)
    yield panel
    panel.close()


@pytest.fixture
def console_page(page, panel):
    """Open the console page and wait until it is connected."""
    page.goto(panel.make_page_url())
    expect(page.locator("#status")).to_have_text("Connected")
    yield page
    page.goto("about:blank")  # a stopped panel would cause console errors


def drop_connections(machine):
    machine.connections[-1].shutdown(socket.SHUT_RDWR)


def remove_expected_errors(console_errors, status):
    """Remove the errors that the browser reports for requests with this status."""
    assert all(status in error for error in console_errors)
    console_errors.clear()


def type_text(page, text, layout):
    page.locator("#keymap").select_option(layout)
    if not page.locator("#text").is_visible():
        page.get_by_role("button", name="Type text").click()
    page.get_by_label("Typed key by key").fill(text)
    page.locator("#text select").select_option("16")
    page.locator("#text [type=submit]").click()


def test_vnc_console_shows_picture(console_page, machine, panel, screenshot):
    """CON-05, CON-06: the page works without a signed-in session."""
    assert machine.drawn.wait(20)
    assert console_page.title() == "web-1 · connected"
    canvas = console_page.locator("#view canvas")
    wait_until(lambda: canvas.evaluate("canvas => [canvas.width, canvas.height]") == [WIDTH, HEIGHT], "the size")
    color = "canvas => [...canvas.getContext('2d').getImageData(9, 9, 1, 1).data]"
    wait_until(lambda: canvas.evaluate(color)[1:] == [80, 120, 255], "the picture")
    screenshot("open")


@pytest.mark.parametrize(
    ("layout", "text", "strokes"),
    [
        ("en-us", "aZ9@{|\n\t ", "1e Shift+2c 0a Shift+03 Shift+1a Shift+2b 1c 0f 39"),
        ("de", "zy@{}ê^~äß<", "15 2c AltGr+10 AltGr+08 AltGr+0b 29+12 29+39 AltGr+1b 28 0c 56"),
        ("fr", "aqmA1@{ê", "10 1e 27 Shift+10 Shift+02 AltGr+0b AltGr+05 1a+12"),
        ("cz", "zyě@{ê1", "15 2c 03 AltGr+2f AltGr+30 Shift+AltGr+04+12 Shift+02"),
        ("pt-br", "ã/?ç", "28+1e 73 AltGr+11 27"),
        ("es", "[]{}\\ñ", "AltGr+1a AltGr+1b AltGr+28 AltGr+2b AltGr+29 27"),
        ("ru", "Йц?", "Shift+10 11 Shift+08"),
    ],
)
def test_text_is_typed_with_keys_of_the_layout(console_page, machine, layout, text, strokes):
    """The machine gets the keys of the layout, including dead keys."""
    type_text(console_page, text, layout)
    expect(console_page.locator("#text output")).to_have_text(f"Characters typed: {len(text)}")
    expected = [re.sub(r"(?<=[0-9a-f]{2})\+(?=[0-9a-f]{2})", " ", stroke).split(" ") for stroke in strokes.split(" ")]
    wait_until(lambda: machine.strokes == [key for keys in expected for key in keys], "the keys")
    wait_until(lambda: not machine.held_keys, "the release of the last key")


def test_text_box_closes_after_typing_and_when_the_machine_goes_off(console_page, machine, panel):
    type_text(console_page, "abc", "en-us")
    expect(console_page.locator("#status")).to_have_text("Characters typed: 3")
    expect(console_page.locator("#text")).to_be_hidden()
    assert console_page.evaluate("document.activeElement.closest('#stage') !== null")
    console_page.get_by_role("button", name="Type text").click()
    expect(console_page.locator("#text")).to_be_visible()
    panel.state_changes = {"power": "off"}
    drop_connections(machine)
    expect(console_page.get_by_role("heading", name="web-1 is off")).to_be_visible()
    expect(console_page.locator("#text")).to_be_hidden()


def test_text_with_characters_missing_in_layout_is_not_typed(console_page, machine, screenshot):
    type_text(console_page, "abcê€\u00a0", "en-us")
    message = console_page.locator("#text output")
    expect(message).to_contain_text("The layout English (US) does not have “ê”, “€”, U+00A0. Nothing was typed")
    screenshot("missing")
    assert machine.keys == []


def test_typing_long_text_shows_progress_and_can_be_stopped(console_page, machine, screenshot):
    type_text(console_page, "abcd " * 800, "en-us")
    wait_until(lambda: len(machine.strokes) > 20, "the first keys")
    bar = console_page.get_by_role("progressbar", name="Typed")
    wait_until(lambda: 0 < int(bar.get_attribute("value")) < int(bar.get_attribute("max")) == 4000, "the progress")
    screenshot("typing")
    console_page.get_by_role("button", name="Stop").click()
    message = console_page.locator("#text output")
    expect(message).to_have_text(re.compile(r"Stopped after \d+ of 4000 characters\."))
    typed = int(re.search(r"\d+", message.inner_text())[0])
    wait_until(lambda: len(machine.strokes) >= typed, "the last keys")
    time.sleep(0.5)  # further keys would arrive by now
    assert len(machine.strokes) == typed


def test_keyboard_layout_menu_is_complete_and_remembered(console_page, panel):
    chooser = console_page.get_by_label("Keyboard layout of the guest")
    assert set(chooser.evaluate("select => [...select.options].map(({value}) => value)")) == set(KEYMAPS)
    assert len(KEYMAPS) == 33
    expect(chooser).to_have_value("de")
    chooser.select_option("fr-ch")
    console_page.goto(panel.make_page_url())
    expect(console_page.get_by_label("Keyboard layout of the guest")).to_have_value("fr-ch")


def test_latin_layouts_have_all_ascii_characters(console_page):
    """The other layouts have no Latin letters: guests with them switch between two layouts."""
    missing = console_page.evaluate(
        """async () => {
          const { loadLayout } = await import("vnc/layout");
          const ascii = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join("");
          const missing = {};
          const { keymaps } = document.querySelector("#stage").dataset;
          for (const { value } of document.querySelector("#keymap").options) {
            missing[value] = (await loadLayout(keymaps, value)).findTextStrokes(ascii).missing;
          }
          return missing;
        }"""
    )
    assert {name for name, characters in missing.items() if characters} == {"ar", "mk", "ru", "th"}
    assert all(set(ascii_letters) <= set(characters) for characters in missing.values() if characters)


def test_keys_are_sent_by_position_or_character(console_page, machine):
    """Keys are sent by position, or by character if the option is on. Shortcuts are always sent by position."""
    console_page.locator("#view canvas").click()
    console_page.keyboard.press("y")
    wait_until(lambda: machine.strokes == ["15"], "the key at its place")
    console_page.get_by_role("button", name="Send keys").click()
    option = console_page.get_by_role(
        "menuitemcheckbox", name="Type characters in the layout of the guest", include_hidden=True
    )
    option.click()
    expect(option).to_have_attribute("aria-checked", "true")
    console_page.keyboard.press("y")
    console_page.keyboard.press("Shift+?")
    console_page.keyboard.press("Control+y")
    wait_until(lambda: machine.strokes == ["15", "2c", "Shift+0c", "Ctrl+15"], "the keys")
    console_page.keyboard.down("Shift")
    console_page.keyboard.press("@")
    console_page.keyboard.up("Shift")
    wait_until(lambda: machine.strokes[-1] == "AltGr+10", "a character that needs no Shift there")


def test_key_combination_menu_works_by_keyboard(console_page, machine, screenshot):
    """Arrow keys move within the menu, and the focus returns to the screen."""
    console_page.get_by_role("button", name="Send keys").focus()
    console_page.keyboard.press("Enter")
    expect(console_page.get_by_role("menuitem", name="Ctrl Alt Del")).to_be_focused()
    screenshot("menu")
    console_page.keyboard.press("ArrowDown")
    console_page.keyboard.press("Enter")
    wait_until(lambda: machine.strokes == ["Ctrl+Alt+0e"], "Ctrl-Alt-Backspace")
    console_page.get_by_role("button", name="Send keys").click()
    console_page.get_by_role("menuitem", name="Ctrl Alt F7").click()
    wait_until(lambda: machine.strokes[-1] == "Ctrl+Alt+41", "Ctrl-Alt-F7")
    console_page.keyboard.press("x")
    wait_until(lambda: machine.strokes[-1] == "2d", "a key on the screen")


def test_keys_are_sent_only_while_the_screen_has_focus(console_page, machine):
    console_page.locator("#view canvas").click()
    console_page.keyboard.press("Tab")
    wait_until(lambda: machine.strokes == ["0f"], "the tabulator")
    console_page.keyboard.press("Control+F6")
    expect(console_page.get_by_role("link", name="Back to web-1")).to_be_focused()
    wait_until(lambda: machine.keys.count((0x1D, False)) == 1, "the end of Ctrl")
    console_page.keyboard.press("a")
    console_page.keyboard.press("Tab")
    time.sleep(0.3)  # further keys would arrive by now
    assert machine.strokes == ["0f"]


def test_vnc_console_reconnects_after_interruption(console_page, machine, panel, screenshot, console_errors):
    """The page gets the address of the new session and shows the state of the connection."""
    previous_url = console_page.url
    panel.session_refusal = 503, {"message": "No worker is free.", "reason": None}
    drop_connections(machine)
    expect(console_page.locator("#notice p")).to_contain_text("No worker is free. Trying again in")
    assert console_page.title() == "web-1 · interrupted"
    screenshot("interrupted")
    panel.session_refusal = None
    console_page.get_by_role("button", name="Open again").click()
    expect(console_page.locator("#status")).to_have_text("Connected")
    assert console_page.url != previous_url
    assert panel.url in console_page.url
    drop_connections(machine)
    wait_until(lambda: panel.session_count == 3, "a session that the page asked for by itself")
    expect(console_page.locator("#status")).to_have_text("Connected")
    remove_expected_errors(console_errors, "503")


def test_interrupted_console_of_signed_out_user_links_to_sign_in(
    console_page, machine, panel, screenshot, console_errors
):
    panel.session_refusal = 401, {"message": "Unauthenticated.", "reason": None}
    drop_connections(machine)
    expect(console_page.locator("#status")).to_have_text("The console has closed. Sign in to open it again.")
    link = console_page.get_by_role("link", name="Sign in")
    assert link.get_attribute("href") == "/sign-in?next=/instances/1"
    screenshot("sign-in")
    remove_expected_errors(console_errors, "401")


def test_console_closed_by_panel_shows_reason(console_page, panel, screenshot):
    """The page does not automatically open a console again that the panel closed."""
    panel.consoles.close_streams(
        {"session": next(iter(panel.sessions))}, close_codes.CLOSED.with_message("web-1 was suspended.")
    )
    expect(console_page.locator("#notice p")).to_have_text("web-1 was suspended.")
    expect(console_page.locator("#status")).to_have_text("web-1 was suspended.")
    expect(console_page.get_by_role("button", name="Open again")).to_be_visible()
    screenshot("closed")
    assert panel.session_count == 1


def test_stopped_instance_can_be_started_on_console_page(console_page, machine, panel, screenshot):
    panel.state_changes = {"power": "off"}
    drop_connections(machine)
    expect(console_page.get_by_role("heading", name="web-1 is off")).to_be_visible()
    assert console_page.title() == "web-1 · off"
    screenshot("off")
    console_page.get_by_role("button", name="Start").click()
    expect(console_page.locator("#status")).to_have_text("web-1 is told to start.")
    panel.state_changes = {}
    expect(console_page.locator("#status")).to_have_text("Connected")
    assert panel.power_actions == ["start"]


def test_power_off_asks_for_confirmation(console_page, panel, screenshot):
    console_page.get_by_role("button", name="Power").click()
    expect(console_page.get_by_role("menuitem", name="Start")).to_be_disabled()
    console_page.get_by_role("menuitem", name="Power off").click()
    dialog = console_page.get_by_role("dialog")
    expect(dialog).to_contain_text("It loses power.")
    screenshot("question")
    console_page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert panel.power_actions == []
    console_page.get_by_role("button", name="Power").click()
    console_page.get_by_role("menuitem", name="Power off").click()
    dialog.get_by_role("button", name="Power off").click()
    expect(console_page.locator("#status")).to_have_text("web-1 is told to stop.")
    assert panel.power_actions == ["stop"]


def test_clipboard_is_copied_in_both_directions(console_page, machine):
    console_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    machine.send_clipboard(b"from the machine")
    console_page.get_by_role("button", name="Clipboard").click()
    expect(console_page.get_by_label("Copied in the guest")).to_have_value("from the machine")
    console_page.get_by_role("button", name="Copy").click()
    wait_until(lambda: console_page.evaluate("navigator.clipboard.readText()") == "from the machine", "the copy")
    console_page.get_by_label("For the guest").fill("to the machine")
    console_page.get_by_role("button", name="Send", exact=True).click()
    wait_until(lambda: machine.pasted == [b"to the machine"], "the text")


def test_screenshot_is_saved(console_page, machine):
    assert machine.drawn.wait(20)
    console_page.get_by_role("button", name="View").click()
    with console_page.expect_download() as saved:
        console_page.get_by_role("menuitem", name="Save screenshot").click()
    assert re.fullmatch(r"web-1 \d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d\.png", saved.value.suggested_filename)
    head = saved.value.path().read_bytes()[:24]
    assert head[:4] == b"\x89PNG"
    assert int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big") == (WIDTH, HEIGHT)


def test_screen_is_scaled_or_in_actual_size(console_page):
    canvas = console_page.locator("#view canvas")
    wait_until(lambda: canvas.bounding_box()["width"] > WIDTH, "the fitted picture")
    console_page.get_by_role("button", name="View").click()
    console_page.get_by_role("menuitemradio", name="Actual size").click()
    wait_until(lambda: canvas.bounding_box()["width"] == WIDTH, "the actual size")
    console_page.get_by_role("button", name="View").click()
    expect(console_page.get_by_role("menuitemradio", name="Actual size")).to_be_checked()


def test_full_screen_hides_toolbar_until_focused(console_page):
    bar = console_page.locator(".bar")
    console_page.get_by_role("button", name="Full screen").click()
    wait_until(lambda: console_page.evaluate("document.fullscreenElement !== null"), "the full screen")
    console_page.locator("#view canvas").click()
    wait_until(lambda: bar.bounding_box()["y"] < -30, "the bar to go")
    console_page.keyboard.press("Control+F6")
    wait_until(lambda: bar.bounding_box()["y"] == 0, "the bar to come back")
    console_page.get_by_role("button", name="Full screen").click()
    wait_until(lambda: console_page.evaluate("document.fullscreenElement === null"), "the window")


def test_phone_key_bar_sends_keys_to_the_guest(browser, panel, machine):
    """At 360 px nothing is cut off, modifiers apply to the next key, and the phone's keyboard types by layout."""
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(panel.make_page_url())
    expect(page.locator("#status")).to_have_text("Connected")
    keys = page.get_by_role("group", name="Guest keys")
    expect(keys).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator(".bar").bounding_box()["height"] < 96  # two lines
    keys.get_by_role("button", name="Ctrl").tap()
    expect(keys.get_by_role("button", name="Ctrl")).to_have_attribute("aria-pressed", "true")
    keys.get_by_role("button", name="Left", exact=True).tap()
    expect(keys.get_by_role("button", name="Ctrl")).to_have_attribute("aria-pressed", "false")
    wait_until(lambda: machine.strokes == ["Ctrl+cb"], "Ctrl-Left")
    keys.get_by_role("button", name="Open the keyboard of this device").tap()
    expect(page.locator("#phone")).to_be_focused()
    page.keyboard.insert_text("y@")
    wait_until(lambda: machine.strokes == ["Ctrl+cb", "2c", "AltGr+10"], "what the phone wrote")
    page.keyboard.press("Backspace")
    keys.get_by_role("button", name="Ctrl").tap()
    page.keyboard.insert_text("c")
    wait_until(lambda: machine.strokes[-2:] == ["0e", "Ctrl+2e"], "Ctrl-C")
    context.close()


def test_connection_quality_is_shown(console_page, machine):
    """Rate and latency are shown after the first measurements."""
    meter = console_page.locator("#quality")
    expect(meter).to_contain_text("KiB/s")
    console_page.locator("#view canvas").click()
    console_page.keyboard.press("a")
    expect(meter).to_contain_text(re.compile(r"\d ms"))
