"""The page of a screen, in a real browser: what is typed, what is said, and how it goes on after an interruption."""

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

pytestmark = [pytest.mark.browser, pytest.mark.processes]


@pytest.fixture
def machine():
    made = VncMachine()
    yield made
    made.close()


@pytest.fixture
def panel(machine):
    made = FakePanel(machine)
    yield made
    made.close()


@pytest.fixture
def screen(page, panel):
    """The page, once it is connected."""
    page.goto(panel.page())
    expect(page.locator("#status")).to_have_text("Connected")
    yield page
    page.goto("about:blank")  # it would notice that the panel ends


def wait_until(condition, what, timeout=60):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def drop_connections(machine):
    machine.connections[-1].shutdown(socket.SHUT_RDWR)


def remove_expected_errors(complaints, status):
    """Browsers themselves print a failure that a page asked for."""
    assert all(status in complaint for complaint in complaints)
    complaints.clear()


def type_text(page, text, layout):
    page.locator("#keymap").select_option(layout)
    if not page.locator("#text").is_visible():
        page.get_by_role("button", name="Type text").click()
    page.get_by_label("Typed key by key").fill(text)
    page.locator("#text select").select_option("16")
    page.locator("#text [type=submit]").click()


def test_the_picture_is_there(screen, machine, panel, screenshot):
    """CON-05, CON-06: the page alone is enough; nobody is signed in."""
    assert machine.drawn.wait(20)
    assert screen.title() == "web-1 · connected"
    canvas = screen.locator("#view canvas")
    wait_until(lambda: canvas.evaluate("canvas => [canvas.width, canvas.height]") == [WIDTH, HEIGHT], "the size")
    colour = "canvas => [...canvas.getContext('2d').getImageData(9, 9, 1, 1).data]"
    wait_until(lambda: canvas.evaluate(colour)[1:] == [80, 120, 255], "the picture")
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
def test_text_is_typed_by_the_keys_of_the_layout(screen, machine, layout, text, strokes):
    """The machine gets the keys that a person at such a keyboard would press, dead keys included."""
    type_text(screen, text, layout)
    expect(screen.locator("#text output")).to_have_text(f"Characters typed: {len(text)}")
    wanted = [re.sub(r"(?<=[0-9a-f]{2})\+(?=[0-9a-f]{2})", " ", stroke).split(" ") for stroke in strokes.split(" ")]
    wait_until(lambda: machine.strokes == [key for keys in wanted for key in keys], "the keys")
    assert all(machine.keys.count((code, True)) == machine.keys.count((code, False)) for code, _ in machine.keys)


def test_a_character_that_the_layout_lacks_is_named_before_anything_is_sent(screen, machine, screenshot):
    type_text(screen, "abcê€\u00a0", "en-us")
    said = screen.locator("#text output")
    expect(said).to_contain_text("The layout English (US) does not have “ê”, “€”, U+00A0. Nothing was typed")
    screenshot("missing")
    assert machine.keys == []


def test_a_long_text_shows_its_progress_and_can_be_stopped(screen, machine, screenshot):
    type_text(screen, "abcd " * 800, "en-us")
    wait_until(lambda: len(machine.strokes) > 20, "the first keys")
    bar = screen.get_by_role("progressbar", name="Typed")
    wait_until(lambda: 0 < int(bar.get_attribute("value")) < int(bar.get_attribute("max")) == 4000, "the progress")
    screenshot("typing")
    screen.get_by_role("button", name="Stop").click()
    said = screen.locator("#text output")
    expect(said).to_have_text(re.compile(r"Stopped after \d+ of 4000 characters\."))
    typed = int(re.search(r"\d+", said.inner_text())[0])
    wait_until(lambda: len(machine.strokes) >= typed, "the last keys")
    time.sleep(0.5)  # for what must not come
    assert len(machine.strokes) == typed


def test_every_layout_of_instances_is_there_and_the_choice_is_kept(screen, panel):
    chooser = screen.get_by_label("Keyboard layout of the guest")
    assert set(chooser.evaluate("select => [...select.options].map(({value}) => value)")) == set(KEYMAPS)
    assert len(KEYMAPS) == 33
    expect(chooser).to_have_value("de")
    chooser.select_option("fr-ch")
    screen.goto(panel.page())
    expect(screen.get_by_label("Keyboard layout of the guest")).to_have_value("fr-ch")


def test_latin_layouts_have_every_character_of_ascii(screen):
    """The others have no Latin letters at all: there, machines switch between two layouts."""
    missing = screen.evaluate(
        """async () => {
          const { loadLayout } = await import("vnc/layout");
          const ascii = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join("");
          const found = {};
          const { keymaps } = document.querySelector("#stage").dataset;
          for (const { value } of document.querySelector("#keymap").options) {
            found[value] = (await loadLayout(keymaps, value)).spell(ascii).missing;
          }
          return found;
        }"""
    )
    assert {name for name, characters in missing.items() if characters} == {"ar", "mk", "ru", "th"}
    assert all(set(ascii_letters) <= set(characters) for characters in missing.values() if characters)


def test_what_my_keys_write_in_the_layout_of_the_machine(screen, machine):
    """By place as a rule; by character for who has another keyboard than the machine. Shortcuts stay places."""
    screen.locator("#view canvas").click()
    screen.keyboard.press("y")
    wait_until(lambda: machine.strokes == ["15"], "the key at its place")
    screen.get_by_role("button", name="Send keys").click()
    wish = screen.get_by_role(
        "menuitemcheckbox", name="Type characters in the layout of the guest", include_hidden=True
    )
    wish.click()
    expect(wish).to_have_attribute("aria-checked", "true")
    screen.keyboard.press("y")
    screen.keyboard.press("Shift+?")
    screen.keyboard.press("Control+y")
    wait_until(lambda: machine.strokes == ["15", "2c", "Shift+0c", "Ctrl+15"], "the keys")
    screen.keyboard.down("Shift")
    screen.keyboard.press("@")
    screen.keyboard.up("Shift")
    wait_until(lambda: machine.strokes[-1] == "AltGr+10", "a character that needs no Shift there")


def test_combinations_from_the_menu_by_keyboard_alone(screen, machine, screenshot):
    """The menu is walked with arrows, and the focus goes back to the screen."""
    screen.get_by_role("button", name="Send keys").focus()
    screen.keyboard.press("Enter")
    expect(screen.get_by_role("menuitem", name="Ctrl Alt Del")).to_be_focused()
    screenshot("menu")
    screen.keyboard.press("ArrowDown")
    screen.keyboard.press("Enter")
    wait_until(lambda: machine.strokes == ["Ctrl+Alt+0e"], "Ctrl-Alt-Backspace")
    screen.get_by_role("button", name="Send keys").click()
    screen.get_by_role("menuitem", name="Ctrl Alt F7").click()
    wait_until(lambda: machine.strokes[-1] == "Ctrl+Alt+41", "Ctrl-Alt-F7")
    screen.keyboard.press("x")
    wait_until(lambda: machine.strokes[-1] == "2d", "a key on the screen")


def test_keys_reach_the_machine_only_from_the_stage(screen, machine):
    screen.locator("#view canvas").click()
    screen.keyboard.press("Tab")
    wait_until(lambda: machine.strokes == ["0f"], "the tabulator")
    screen.keyboard.press("Control+F6")
    expect(screen.get_by_role("link", name="Back to web-1")).to_be_focused()
    wait_until(lambda: machine.keys.count((0x1D, False)) == 1, "the end of Ctrl")
    screen.keyboard.press("a")
    screen.keyboard.press("Tab")
    time.sleep(0.3)  # for what must not come
    assert machine.strokes == ["0f"]


def test_a_new_session_follows_an_interruption(screen, machine, panel, screenshot, console_errors):
    """The page gets the new session's address, and says all the while what happens."""
    before = screen.url
    panel.again = 503, {"message": "No worker is free.", "reason": None}
    drop_connections(machine)
    expect(screen.locator("#notice p")).to_contain_text("No worker is free. Trying again in")
    assert screen.title() == "web-1 · interrupted"
    screenshot("interrupted")
    panel.again = None
    screen.get_by_role("button", name="Open again").click()
    expect(screen.locator("#status")).to_have_text("Connected")
    assert screen.url != before
    assert panel.url in screen.url
    drop_connections(machine)
    wait_until(lambda: panel.session_count == 3, "a session that the page asked for by itself")
    expect(screen.locator("#status")).to_have_text("Connected")
    remove_expected_errors(console_errors, "503")


def test_who_is_not_signed_in_is_told_so(screen, machine, panel, screenshot, console_errors):
    panel.again = 401, {"message": "Unauthenticated.", "reason": None}
    drop_connections(machine)
    expect(screen.locator("#status")).to_have_text("The console has closed. Sign in to open it again.")
    link = screen.get_by_role("link", name="Sign in")
    assert link.get_attribute("href") == "/sign-in?next=/instances/1"
    screenshot("sign-in")
    remove_expected_errors(console_errors, "401")


def test_why_it_closed_is_said_in_a_sentence(screen, panel, screenshot):
    """A console that the panel closed is not opened again by itself."""
    panel.consoles.close(
        {"session": next(iter(panel.sessions))}, close_codes.CLOSED.with_message("web-1 was suspended.")
    )
    expect(screen.locator("#notice p")).to_have_text("web-1 was suspended.")
    expect(screen.locator("#status")).to_have_text("web-1 was suspended.")
    expect(screen.get_by_role("button", name="Open again")).to_be_visible()
    screenshot("closed")
    assert panel.session_count == 1


def test_a_machine_that_is_off_can_be_started_here(screen, machine, panel, screenshot):
    panel.state_changes = {"power": "off"}
    drop_connections(machine)
    expect(screen.get_by_role("heading", name="web-1 is off")).to_be_visible()
    assert screen.title() == "web-1 · off"
    screenshot("off")
    screen.get_by_role("button", name="Start").click()
    expect(screen.locator("#status")).to_have_text("web-1 is told to start.")
    panel.state_changes = {}
    expect(screen.locator("#status")).to_have_text("Connected")
    assert panel.powered == ["start"]


def test_power_asks_first(screen, panel, screenshot):
    screen.get_by_role("button", name="Power").click()
    expect(screen.get_by_role("menuitem", name="Start")).to_be_disabled()
    screen.get_by_role("menuitem", name="Power off").click()
    dialog = screen.get_by_role("dialog")
    expect(dialog).to_contain_text("It loses power.")
    screenshot("question")
    screen.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert panel.powered == []
    screen.get_by_role("button", name="Power").click()
    screen.get_by_role("menuitem", name="Power off").click()
    dialog.get_by_role("button", name="Power off").click()
    expect(screen.locator("#status")).to_have_text("web-1 is told to stop.")
    assert panel.powered == ["stop"]


def test_both_clipboards(screen, machine):
    screen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    machine.copies(b"from the machine")
    screen.get_by_role("button", name="Clipboard").click()
    expect(screen.get_by_label("Copied in the guest")).to_have_value("from the machine")
    screen.get_by_role("button", name="Copy").click()
    wait_until(lambda: screen.evaluate("navigator.clipboard.readText()") == "from the machine", "the copy")
    screen.get_by_label("For the guest").fill("to the machine")
    screen.get_by_role("button", name="Send", exact=True).click()
    wait_until(lambda: machine.pasted == [b"to the machine"], "the text")


def test_a_picture_is_saved(screen, machine):
    assert machine.drawn.wait(20)
    screen.get_by_role("button", name="View").click()
    with screen.expect_download() as saved:
        screen.get_by_role("menuitem", name="Save screenshot").click()
    assert re.fullmatch(r"web-1 \d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d\.png", saved.value.suggested_filename)
    head = saved.value.path().read_bytes()[:24]
    assert head[:4] == b"\x89PNG"
    assert int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big") == (WIDTH, HEIGHT)


def test_actual_size_and_fitted(screen):
    canvas = screen.locator("#view canvas")
    wait_until(lambda: canvas.bounding_box()["width"] > WIDTH, "the fitted picture")
    screen.get_by_role("button", name="View").click()
    screen.get_by_role("menuitemradio", name="Actual size").click()
    wait_until(lambda: canvas.bounding_box()["width"] == WIDTH, "the actual size")
    screen.get_by_role("button", name="View").click()
    expect(screen.get_by_role("menuitemradio", name="Actual size")).to_be_checked()


def test_full_screen_hides_the_bar_until_it_is_needed(screen):
    bar = screen.locator(".bar")
    screen.get_by_role("button", name="Full screen").click()
    wait_until(lambda: screen.evaluate("document.fullscreenElement !== null"), "the full screen")
    screen.locator("#view canvas").click()
    wait_until(lambda: bar.bounding_box()["y"] < -30, "the bar to go")
    screen.keyboard.press("Control+F6")
    wait_until(lambda: bar.bounding_box()["y"] == 0, "the bar to come back")
    screen.get_by_role("button", name="Full screen").click()
    wait_until(lambda: screen.evaluate("document.fullscreenElement === null"), "the window")


def test_a_phone_has_the_keys_it_lacks(browser, panel, machine):
    """At 360 px nothing is cut off; modifiers stay down for the next key, and the phone's keyboard types by layout."""
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(panel.page())
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


def test_how_good_the_connection_is(screen, machine):
    """Shown once there is something to tell it by."""
    meter = screen.locator("#quality")
    expect(meter).to_contain_text("KiB/s")
    screen.locator("#view canvas").click()
    screen.keyboard.press("a")
    expect(meter).to_contain_text(re.compile(r"\d ms"))
