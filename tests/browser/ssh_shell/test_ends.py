"""How a shell ends in a browser, and the message for each close reason."""

import pytest
from playwright.sync_api import expect

from consoles import close_codes
from consoles.ssh_shell import compute_fingerprint
from tests.support import ssh_guest as guests
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser


def test_shell_exit_shows_exit_code_and_opens_again(shell_page, screenshot):
    shell_page.open()
    shell_page.run("exit 3")
    expect(shell_page.notice).to_contain_text("The shell ended with exit code 3.")
    screenshot("ended")
    shell_page.find_button("Open again").click()
    shell_page.wait_until_ready()
    shell_page.wait_for_text("New shell")
    assert shell_page.site.openings == 2
    shell_page.run("exit")
    expect(shell_page.notice).to_contain_text("exit code 0")
    shell_page.page.wait_for_timeout(1500)  # an automatic opening would happen by now
    assert shell_page.site.openings == 2
    shell_page.page.keyboard.press("Enter")
    shell_page.wait_until_ready()


OBSERVE_NOTICES_SCRIPT = """notice => {
    window.notices = [];
    new MutationObserver(() => notices.push(notice.innerText)).observe(notice, { childList: true, subtree: true });
}"""
"""Records the texts of the notice, because some of them are visible for a second only."""


def test_lost_shell_connection_is_opened_again(shell_page, console_errors):
    shell_page.open()
    shell_page.notice.evaluate(OBSERVE_NOTICES_SCRIPT)
    shell_page.site.drop_connections()
    wait_until(lambda: shell_page.site.openings == 2, "another shell")
    (notice, *_) = [text for text in shell_page.page.evaluate("notices") if "was lost" in text]
    assert "The connection to the panel was lost." in notice
    assert "Another shell opens in 1 s." in notice
    shell_page.wait_until_ready()
    # With refusals, retry intervals grow, so that the button can be clicked in time.
    shell_page.site.refusal = (503, "No worker is free.", None)
    shell_page.site.drop_connections()
    expect(shell_page.notice).to_contain_text("Another shell opens in 4 s.")
    shell_page.find_button("Leave it closed").click()
    openings = shell_page.site.openings
    shell_page.page.wait_for_timeout(4500)  # a retry would happen by now
    assert shell_page.site.openings == openings
    expect(shell_page.notice).to_contain_text("No worker is free.")
    assert all("503" in console_errors.pop() for _ in list(console_errors))
    shell_page.site.refusal = None
    shell_page.find_button("Open again").click()
    shell_page.wait_until_ready()


def test_shell_opens_again_after_panel_restart(shell_page):
    shell_page.open()
    shell_page.site.consoles.stop(1)
    expect(shell_page.notice).to_contain_text("The panel is being restarted.")
    shell_page.site.start_consoles()
    shell_page.wait_until_ready()


def test_shell_closed_by_panel_stays_closed(shell_page):
    shell_page.open()
    shell_page.site.consoles.close_streams({"session": "1"}, close_codes.CLOSED.with_message("Your sign-in was ended."))
    expect(shell_page.notice).to_contain_text("Your sign-in was ended.")
    shell_page.page.wait_for_timeout(2000)
    assert shell_page.site.openings == 1
    expect(shell_page.find_button("Open again")).to_be_visible()


REFUSAL_CASES = {
    "not running": (409, "The instance is not running. Start it first.", "instance_not_running"),
    "no key": (503, "The key could not be put into the machine.", "ssh_key_injection_failed"),
    "not Linux": (422, "A shell can be opened only in Linux. Use the console.", "unsupported_os"),
    "not permitted": (403, "You need instances.console. The owner can give it to you.", None),
}


@pytest.mark.parametrize("refusal", REFUSAL_CASES)
def test_refused_shell_shows_the_reason(shell_page, console_errors, refusal, screenshot):
    """SSH-15, SSH-17, SSH-19: their messages on the page."""
    status, message, reason = shell_page.site.refusal = REFUSAL_CASES[refusal]
    shell_page.open(wait_until_ready=False)
    expect(shell_page.notice).to_contain_text(message)
    expect(shell_page.page.get_by_role("link", name="Go to web-1")).to_have_attribute("href", "/shell/back")
    if reason == "ssh_key_injection_failed":
        expect(shell_page.notice).to_contain_text("The key is installed by the guest agent")
    screenshot("refused")
    assert str(status) in console_errors.pop()
    shell_page.site.refusal = None
    shell_page.find_button("Open again").click()
    shell_page.wait_until_ready()


def test_shell_of_signed_out_user_links_to_sign_in(shell_page, console_errors):
    shell_page.site.refusal = (401, "Sign in first.", None)
    shell_page.open(wait_until_ready=False)
    expect(shell_page.page.get_by_role("link", name="Sign in")).to_have_attribute("href", shell_page.site.url)
    assert "401" in console_errors.pop()


def test_opening_shell_shows_key_installation(shell_page, screenshot):
    shell_page.site.prepared.clear()
    shell_page.open(wait_until_ready=False)
    expect(shell_page.notice).to_contain_text("Installing a key in the guest …")
    expect(shell_page.status).to_have_text("Opening …")
    screenshot("opening")
    shell_page.site.prepared.set()
    shell_page.wait_until_ready()


def test_changed_host_key_is_shown_and_accepted(shell_page, screenshot):
    site = shell_page.site
    previous_key = site.known_host_key = guests.public_key_line(guests.load_key(guests.create_key()))
    shell_page.open(wait_until_ready=False)
    expect(shell_page.notice).to_contain_text("host key of the instance has changed")
    presented_key = guests.public_key_line(site.guest.host_keys[0])
    expect(shell_page.notice).to_contain_text(compute_fingerprint(previous_key))
    expect(shell_page.notice).to_contain_text(compute_fingerprint(presented_key))
    assert site.guest.interfaces[0].attempts == 0  # the key was not sent to the unknown host
    screenshot("changed")
    shell_page.page.wait_for_timeout(1500)
    assert site.openings == 1
    shell_page.find_button("Accept this key and open").click()
    shell_page.wait_until_ready()
    assert site.known_host_key == presented_key
    shell_page.find_button("Options").click()
    expect(shell_page.page.locator("#options")).to_contain_text(compute_fingerprint(presented_key))


def test_only_the_shown_host_key_is_accepted(shell_page, console_errors):
    site = shell_page.site
    previous_key = site.known_host_key = guests.public_key_line(guests.load_key(guests.create_key()))
    shell_page.open(wait_until_ready=False)
    expect(shell_page.notice).to_contain_text("New key")
    site.presented_host_key = third_key = guests.public_key_line(guests.load_key(guests.create_key()))
    shell_page.find_button("Accept this key and open").click()
    expect(shell_page.notice).to_contain_text("The instance presented another key in the meantime.")
    assert site.known_host_key == previous_key
    shell_page.find_button("Compare again").click()
    expect(shell_page.notice).to_contain_text(compute_fingerprint(third_key))
    assert "409" in console_errors.pop()
