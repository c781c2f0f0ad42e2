"""The shell's page in a real browser, with a real shell behind a real SSH server. Ask 8 of the customer's list: resize,
colours, copy and paste, links, search, and a sentence for each end."""

import re
import sqlite3
import time
from contextlib import closing

import pytest
from paramiko import AUTH_FAILED, AUTH_SUCCESSFUL
from playwright.sync_api import expect

from consoles import endings
from consoles.shell import fingerprint
from tests.browser.shells import Stage, bash
from tests.browser.test_tokens import CUSTOMER, PASSWORD, sign_in
from tests.consoles import guest as guests
from tests.processes.conftest import Customer, fresh, installation, settings  # noqa: F401

pytestmark = pytest.mark.browser
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def theatre(tmp_path_factory):
    made = Stage(tmp_path_factory.mktemp("stage"))
    yield made
    made.close()


@pytest.fixture
def stage(theatre):
    theatre.begin()
    yield theatre
    theatre.end()


class Shell:
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
        expect(self.status).to_have_text("Connected", timeout=20000)
        expect(self.strip).to_be_hidden()
        expect(self.page.locator("#terminal textarea")).to_be_focused()
        self.shows("guest#")

    def run(self, command):
        self.page.keyboard.insert_text(command)
        self.page.keyboard.press("Enter")

    def text(self):
        return self.page.locator(".xterm-rows").inner_text().replace("\xa0", " ")

    def shows(self, words, seconds=10):
        """Waits until the terminal shows it; a regular expression may be given."""
        end = time.monotonic() + seconds
        while not re.search(words, self.text(), re.M):
            assert time.monotonic() < end, f"{words!r} is not in:\n{self.text()}"
            self.page.wait_for_timeout(50)

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)


@pytest.fixture
def shell(page, stage):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return Shell(page, stage)


def clipboard(shell):
    return shell.page.evaluate("navigator.clipboard.readText()")


def copied(shell, text):
    """Puts a text into the clipboard, as another program would."""
    shell.page.evaluate("text => navigator.clipboard.writeText(text)", text)


# --- Seeing and typing


def test_it_types_and_shows(shell, shot):
    """SSH-07: in a browser."""
    shell.open()
    shell.run("echo $((6 * 7))")
    shell.shows("^42$")
    expect(shell.page.locator("#ping")).to_have_text(re.compile(r"^\d+ ms$"))
    expect(shell.page).to_have_title("web-1 · Shell")
    shell.run(r"printf '\e]0;root@web-1: /srv\a'")
    expect(shell.page).to_have_title("web-1 · root@web-1: /srv")
    shot("open")


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
    shell.page.wait_for_timeout(500)
    shell.run("stty size")
    smaller = shell.stage.guest.doors[0].sizes[-1]
    assert smaller[0] < columns
    assert smaller[1] < rows
    shell.shows(f"^{smaller[1]} {smaller[0]}$")


def test_letters_and_colours_are_remembered(shell):
    shell.open()
    columns = shell.stage.guest.doors[0].sizes[-1][0]
    shell.page.keyboard.press("Control+=")
    shell.button("Larger letters").click()
    expect(shell.page.locator("#terminal textarea")).to_be_focused()
    shell.page.wait_for_timeout(300)
    assert shell.stage.guest.doors[0].sizes[-1][0] < columns
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
    shell.page.wait_for_timeout(2000)
    shell.page.keyboard.press("Control+c")
    shell.shows(r"\^C[\s\S]*^guest#", seconds=3)
    shell.run("echo still $((1 + 1)) here")
    shell.shows("^still 2 here$", seconds=3)


# --- Copying, pasting, searching, links


def test_copying(shell):
    shell.open()
    shell.run("echo somewhere_to_click")
    shell.shows("^somewhere_to_click$")
    word = shell.page.locator(".xterm-rows > div", has_text=re.compile("^somewhere_to_click")).bounding_box()
    spot = (word["x"] + 20, word["y"] + word["height"] / 2)
    shell.page.mouse.dblclick(*spot)
    shell.page.keyboard.press("Control+Shift+C")
    assert clipboard(shell) == "somewhere_to_click"

    copied(shell, "nothing yet")
    shell.page.mouse.click(*spot, button="right")  # the browser's own menu copies what is in the field below it
    assert shell.page.locator("#terminal textarea").input_value() == "somewhere_to_click"
    shell.page.mouse.click(spot[0] + 300, spot[1])
    shell.page.mouse.dblclick(*spot)
    assert clipboard(shell) == "nothing yet"

    shell.button("Options").click()
    shell.page.get_by_label("Copy as soon as something is selected").check()
    shell.page.keyboard.press("Escape")
    shell.page.mouse.dblclick(*spot)
    shell.page.wait_for_timeout(200)
    assert clipboard(shell) == "somewhere_to_click"


def test_pasting_asks_where_each_line_would_run(shell, shot):
    shell.open()
    copied(shell, "echo one\necho two\n")
    shell.page.keyboard.press("Control+Shift+V")  # bash says that it can tell pasted text from typed
    shell.shows("echo one\n.*echo two")
    expect(shell.page.locator("#paste")).to_be_hidden()
    shell.page.keyboard.press("Control+c")

    shell.run("clear; head -2 | tac")
    shell.shows(r"\A\s*\Z")
    shell.page.keyboard.press("Control+Shift+V")
    question = shell.page.get_by_role("dialog", name="Paste into the terminal?")
    expect(question).to_contain_text("This is 2 lines.")
    shot("question")
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
    copied(shell, "harmless\x1b[201~\nnot run\n")
    shell.page.keyboard.press("Control+Shift+V")
    shell.page.keyboard.press("Enter")
    shell.shows(r"\^\[\[200~harmless\[201~\nnot run\n\^\[\[201~")


def test_a_large_text_is_pasted_whole(shell):
    """More than the console process takes in one message."""
    shell.open()
    shell.run("stty -echo; cat > /dev/null & cat | { head -c 400000 | tr -d '\\n' | wc -c; }")
    shell.page.wait_for_timeout(300)
    copied(shell, ("x" * 999 + "\n") * 400)
    shell.page.keyboard.press("Control+Shift+V")
    shell.page.get_by_role("dialog").get_by_role("button", name="Paste").click()
    shell.shows("^399600$", seconds=20)


def test_searching(shell, shot):
    shell.open()
    shell.run("seq 1 300")
    shell.shows("^300$")
    shell.page.keyboard.press("Control+Shift+F")
    box = shell.page.get_by_role("searchbox", name="Search the terminal")
    expect(box).to_be_focused()
    box.fill("299")
    expect(shell.page.locator("#find output")).to_have_text("1 of 1")
    shell.shows("^299$")
    box.fill("29")
    expect(shell.page.locator("#find output")).to_have_text("13 of 13")
    box.press("Enter")
    expect(shell.page.locator("#find output")).to_have_text("12 of 13")
    shot("found")
    box.fill("nowhere")
    expect(shell.page.locator("#find output")).to_have_text("Not found")
    box.press("Escape")
    expect(shell.page.locator("#terminal textarea")).to_be_focused()


def test_links(shell):
    shell.open()
    shell.page.context.route("https://docs.example.com/**", lambda route: route.fulfill(body="the page"))
    shell.run("clear; echo https://docs.example.com/guide.")
    shell.shows("^https")
    row = shell.page.locator(".xterm-rows > div", has_text=re.compile("^https")).bounding_box()
    shell.page.mouse.move(row["x"] + 40, row["y"] + 5)
    shell.page.mouse.move(row["x"] + 45, row["y"] + 5)
    expect(shell.page.locator("#aim")).to_have_text("https://docs.example.com/guide")
    with shell.page.context.expect_page() as opened:
        shell.page.mouse.click(row["x"] + 45, row["y"] + 5)
    assert opened.value.url == "https://docs.example.com/guide"
    assert opened.value.evaluate("window.opener") is None


# --- Keyboard, screen readers, phones


def test_the_keyboard_leaves_and_a_screen_reader_reads(shell):
    shell.open()
    shell.page.keyboard.press("Tab")  # the shell's
    expect(shell.page.locator("#terminal textarea")).to_be_focused()
    shell.page.keyboard.press("Control+F6")
    expect(shell.page.get_by_role("link", name="Back to web-1")).to_be_focused()
    shell.button("Options").focus()
    shell.page.keyboard.press("Enter")
    shell.page.get_by_label("Read the output to a screen reader").check()
    shell.page.keyboard.press("Escape")
    expect(shell.page.locator("#terminal textarea")).to_be_focused()
    shell.page.keyboard.type("echo to be read\n")
    expect(shell.page.get_by_role("listitem").filter(has_text=re.compile("^to be read"))).to_be_attached()


def test_a_phone_has_the_keys_it_lacks(shell, shot):
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
    shot("keys")


def test_a_finger_copies_what_is_shown(shell):
    shell.page.set_viewport_size(PHONE)
    shell.open()
    shell.run("echo shown on the screen")
    shell.shows("^shown on the screen$")
    shell.button("Copy").click()
    shell.page.wait_for_timeout(200)
    assert "shown on the screen" in clipboard(shell).splitlines()


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


# --- Ends


def test_an_exit_code_and_another_shell(shell, shot):
    shell.open()
    shell.run("exit 3")
    expect(shell.strip).to_contain_text("The shell ended with exit code 3.")
    shot("ended")
    shell.button("Open again").click()
    shell.ready()
    shell.shows("New shell")
    assert shell.stage.openings == 2
    shell.run("exit")
    expect(shell.strip).to_contain_text("exit code 0")
    shell.page.wait_for_timeout(1500)
    assert shell.stage.openings == 2  # nobody opens another one unasked
    shell.page.keyboard.press("Enter")
    shell.ready()


def test_a_lost_connection_is_opened_again(shell):
    shell.open()
    shell.stage.drop()
    expect(shell.strip).to_contain_text("The connection to the panel was lost.")
    expect(shell.strip).to_contain_text("Another shell is opened in a second.")
    shell.ready()
    assert shell.stage.openings == 2
    shell.stage.drop()
    expect(shell.strip).to_contain_text("in 2 seconds")
    shell.button("Leave it closed").click()
    shell.page.wait_for_timeout(2500)
    assert shell.stage.openings == 2
    expect(shell.strip).to_contain_text("The connection to the panel was lost.")
    shell.button("Open again").click()
    shell.ready()


def test_a_restart_of_the_panel(shell):
    shell.open()
    shell.stage.consoles.stop(1)
    expect(shell.strip).to_contain_text("The panel is being restarted.")
    shell.stage.carry()
    shell.ready()


def test_the_panel_closes_it(shell):
    shell.open()
    shell.stage.consoles.close({"session": "1"}, endings.CLOSED.saying("Your sign-in was ended."))
    expect(shell.strip).to_contain_text("Your sign-in was ended.")
    shell.page.wait_for_timeout(2000)
    assert shell.stage.openings == 1
    expect(shell.button("Open again")).to_be_visible()


REFUSALS = {
    "not running": (409, "The instance is not running. Start it first.", "instance_not_running"),
    "no key": (503, "The key could not be put into the machine.", "ssh_key_injection_failed"),
    "not Linux": (422, "A shell can be opened in Linux only. Use the screen.", "unsupported_os"),
    "not permitted": (403, "You need instances.console. The owner can give it to you.", None),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_is_a_sentence(shell, complaints, refusal, shot):
    """SSH-15, SSH-17, SSH-19: what people see of them."""
    status, message, reason = shell.stage.refusal = REFUSALS[refusal]
    shell.open(ready=False)
    expect(shell.strip).to_contain_text(message)
    expect(shell.page.get_by_role("link", name="Go to web-1")).to_have_attribute("href", "/stage/back")
    if reason == "ssh_key_injection_failed":
        expect(shell.strip).to_contain_text("The guest agent puts a key into the machine")
    shot("refused")
    assert str(status) in complaints.pop()
    shell.stage.refusal = None
    shell.button("Open again").click()
    shell.ready()


def test_somebody_who_was_signed_out(shell, complaints):
    shell.stage.refusal = (401, "Sign in first.", None)
    shell.open(ready=False)
    expect(shell.page.get_by_role("link", name="Sign in")).to_have_attribute("href", shell.stage.url)
    assert "401" in complaints.pop()


def test_it_says_what_takes_long(shell, shot):
    shell.stage.prepared.clear()
    shell.open(ready=False)
    expect(shell.strip).to_contain_text("Putting a key into the guest …")
    expect(shell.status).to_have_text("Opening …")
    shot("opening")
    shell.stage.prepared.set()
    shell.ready()


def test_another_host_key_is_shown_and_accepted(shell, shot):
    stage = shell.stage
    before = stage.known = guests.line(guests.loaded(guests.new_key()))
    shell.open(ready=False)
    expect(shell.strip).to_contain_text("another host key")
    shown = guests.line(stage.guest.host_keys[0])
    expect(shell.strip).to_contain_text(fingerprint(before))
    expect(shell.strip).to_contain_text(fingerprint(shown))
    assert stage.guest.doors[0].tries == 0  # nothing was shown to the stranger
    shot("changed")
    shell.page.wait_for_timeout(1500)
    assert stage.openings == 1
    shell.button("Accept this key and open").click()
    shell.ready()
    assert stage.known == shown
    shell.button("Options").click()
    expect(shell.page.locator("#options")).to_contain_text(fingerprint(shown))


def test_only_the_host_key_that_was_seen_is_accepted(shell, complaints):
    stage = shell.stage
    before = stage.known = guests.line(guests.loaded(guests.new_key()))
    shell.open(ready=False)
    expect(shell.strip).to_contain_text("Shown now")
    stage.shown = third = guests.line(guests.loaded(guests.new_key()))
    shell.button("Accept this key and open").click()
    expect(shell.strip).to_contain_text("The machine has shown another key meanwhile.")
    assert stage.known == before
    shell.button("Compare again").click()
    expect(shell.strip).to_contain_text(fingerprint(third))
    assert "409" in complaints.pop()


# --- Through the panel's own routes


@pytest.fixture
def running(installation):  # noqa: F811
    installation.up()
    installation.panel("user", "password", "--email", CUSTOMER, "--password", PASSWORD)
    return installation


class Elsewhere:
    """A simulated machine has no SSH server, so each session is led to `guest`, which lets its key in."""

    def __init__(self, installation, monkeypatch):  # noqa: F811
        self.database = installation.data_dir / "panel.db"
        self.guest, self.keys = guests.Server(bash), set()
        monkeypatch.setattr(guests.Door, "check_auth_publickey", lambda door, user, key: self.lets_in(user, key))

    def lets_in(self, user, key):
        return AUTH_SUCCESSFUL if user == "root" and guests.line(key) in self.keys else AUTH_FAILED

    def lead(self, route):
        if route.request.method != "POST":
            return route.fallback()
        answer = route.fetch()
        if answer.ok:
            session_id = answer.json()["session_id"]
            with closing(sqlite3.connect(self.database, timeout=20)) as database, database:
                place = (self.guest.host, self.guest.port, session_id)
                database.execute("update console_sessions set host = ?, port = ? where id = ?", place)
                (key,) = database.execute(
                    "select public_key from console_sessions where id = ?", [session_id]
                ).fetchone()
            self.keys.add(" ".join(key.split()[:2]))
        return route.fulfill(response=answer)

    def anew(self):
        """The machine is another one from now on."""
        self.guest.close()
        self.guest = guests.Server(bash)


@pytest.mark.processes
def test_the_panels_own_routes(page, running, fresh, monkeypatch, complaints, shot):  # noqa: F811
    """SSH-15; ask 8: from signing in to a shell, a host key that changed, and a machine that is turned off."""
    customer, elsewhere = Customer(running, fresh[1]), Elsewhere(running, monkeypatch)
    instance, task = customer.deploy()
    customer.finished(task)
    page.route(f"**/instances/{instance}/shell", elsewhere.lead)
    shell = Shell(page, elsewhere)
    sign_in(page, running, CUSTOMER)
    page.goto(f"{running.url}/instances/{instance}/shell")
    shell.ready()
    shell.run("exit 7")
    expect(shell.strip).to_contain_text("exit code 7")

    before = fingerprint(guests.line(elsewhere.guest.host_keys[0]))
    elsewhere.anew()
    shell.button("Open again").click()
    expect(shell.strip).to_contain_text("another host key", timeout=20000)
    expect(shell.strip).to_contain_text(before)
    expect(shell.strip).to_contain_text(fingerprint(guests.line(elsewhere.guest.host_keys[0])))
    shell.button("Accept this key and open").click()
    shell.ready()

    stopped = customer.call("POST", f"/api/instance/{instance}/power/poweroff")
    expect(shell.strip).to_contain_text("The machine was turned off.", timeout=20000)
    customer.finished(stopped["task_id"])
    shot("off")
    shell.button("Open again").click()
    expect(shell.strip).to_contain_text("The instance is not running. Start it first.")
    assert "409" in complaints.pop()
    elsewhere.guest.close()
