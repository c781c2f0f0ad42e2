"""How a shell ends in a browser, and a sentence for each end."""

import pytest
from playwright.sync_api import expect

from consoles import close_codes
from consoles.ssh_shell import host_key_fingerprint
from tests.processes.conftest import wait_until
from tests.support import ssh_guest as guests

pytestmark = pytest.mark.browser


def test_an_exit_code_and_another_shell(shell, screenshot):
    shell.open()
    shell.run("exit 3")
    expect(shell.strip).to_contain_text("The shell ended with exit code 3.")
    screenshot("ended")
    shell.button("Open again").click()
    shell.ready()
    shell.shows("New shell")
    assert shell.stage.openings == 2
    shell.run("exit")
    expect(shell.strip).to_contain_text("exit code 0")
    shell.page.wait_for_timeout(1500)  # for what must not come
    assert shell.stage.openings == 2  # nobody opens another one unasked
    shell.page.keyboard.press("Enter")
    shell.ready()


OBSERVE_NOTICES_SCRIPT = """strip => {
    window.noted = [];
    new MutationObserver(() => noted.push(strip.innerText)).observe(strip, { childList: true, subtree: true });
}"""
"""Keeps what the strip says: some of it is there for a second only."""


def test_a_lost_connection_is_opened_again(shell, console_errors):
    shell.open()
    shell.strip.evaluate(OBSERVE_NOTICES_SCRIPT)
    shell.stage.drop()
    wait_until(lambda: shell.stage.openings == 2, "another shell")
    (said, *_) = [text for text in shell.page.evaluate("noted") if "was lost" in text]
    assert "The connection to the panel was lost." in said
    assert "Another shell opens in 1 s." in said
    shell.ready()
    shell.stage.refusal = (503, "No worker is free.", None)  # so that pauses grow and leave time to answer
    shell.stage.drop()
    expect(shell.strip).to_contain_text("Another shell opens in 4 s.")
    shell.button("Leave it closed").click()
    tried = shell.stage.openings
    shell.page.wait_for_timeout(4500)  # for what must not come
    assert shell.stage.openings == tried
    expect(shell.strip).to_contain_text("No worker is free.")
    assert all("503" in console_errors.pop() for _ in list(console_errors))
    shell.stage.refusal = None
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
    shell.stage.consoles.close({"session": "1"}, close_codes.CLOSED.with_message("Your sign-in was ended."))
    expect(shell.strip).to_contain_text("Your sign-in was ended.")
    shell.page.wait_for_timeout(2000)
    assert shell.stage.openings == 1
    expect(shell.button("Open again")).to_be_visible()


REFUSAL_CASES = {
    "not running": (409, "The instance is not running. Start it first.", "instance_not_running"),
    "no key": (503, "The key could not be put into the machine.", "ssh_key_injection_failed"),
    "not Linux": (422, "A shell can be opened only in Linux. Use the console.", "unsupported_os"),
    "not permitted": (403, "You need instances.console. The owner can give it to you.", None),
}


@pytest.mark.parametrize("refusal", REFUSAL_CASES)
def test_a_refusal_is_a_sentence(shell, console_errors, refusal, screenshot):
    """SSH-15, SSH-17, SSH-19: what people see of them."""
    status, message, reason = shell.stage.refusal = REFUSAL_CASES[refusal]
    shell.open(ready=False)
    expect(shell.strip).to_contain_text(message)
    expect(shell.page.get_by_role("link", name="Go to web-1")).to_have_attribute("href", "/stage/back")
    if reason == "ssh_key_injection_failed":
        expect(shell.strip).to_contain_text("The key is installed by the guest agent")
    screenshot("refused")
    assert str(status) in console_errors.pop()
    shell.stage.refusal = None
    shell.button("Open again").click()
    shell.ready()


def test_somebody_who_was_signed_out(shell, console_errors):
    shell.stage.refusal = (401, "Sign in first.", None)
    shell.open(ready=False)
    expect(shell.page.get_by_role("link", name="Sign in")).to_have_attribute("href", shell.stage.url)
    assert "401" in console_errors.pop()


def test_it_says_what_takes_long(shell, screenshot):
    shell.stage.prepared.clear()
    shell.open(ready=False)
    expect(shell.strip).to_contain_text("Installing a key in the guest …")
    expect(shell.status).to_have_text("Opening …")
    screenshot("opening")
    shell.stage.prepared.set()
    shell.ready()


def test_another_host_key_is_shown_and_accepted(shell, screenshot):
    stage = shell.stage
    before = stage.known = guests.public_key_line(guests.load_key(guests.new_key()))
    shell.open(ready=False)
    expect(shell.strip).to_contain_text("host key of the instance has changed")
    shown = guests.public_key_line(stage.guest.host_keys[0])
    expect(shell.strip).to_contain_text(host_key_fingerprint(before))
    expect(shell.strip).to_contain_text(host_key_fingerprint(shown))
    assert stage.guest.doors[0].tries == 0  # nothing was shown to the stranger
    screenshot("changed")
    shell.page.wait_for_timeout(1500)
    assert stage.openings == 1
    shell.button("Accept this key and open").click()
    shell.ready()
    assert stage.known == shown
    shell.button("Options").click()
    expect(shell.page.locator("#options")).to_contain_text(host_key_fingerprint(shown))


def test_only_the_host_key_that_was_seen_is_accepted(shell, console_errors):
    stage = shell.stage
    before = stage.known = guests.public_key_line(guests.load_key(guests.new_key()))
    shell.open(ready=False)
    expect(shell.strip).to_contain_text("New key")
    stage.shown = third = guests.public_key_line(guests.load_key(guests.new_key()))
    shell.button("Accept this key and open").click()
    expect(shell.strip).to_contain_text("The instance presented another key in the meantime.")
    assert stage.known == before
    shell.button("Compare again").click()
    expect(shell.strip).to_contain_text(host_key_fingerprint(third))
    assert "409" in console_errors.pop()
