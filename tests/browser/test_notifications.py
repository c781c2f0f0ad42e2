"""Notifications of the browser for new messages of the inbox."""

import pytest
from playwright.sync_api import expect

from panel.core.db import session
from panel.services import inbox
from tests.browser.readability_site import open_page, site  # noqa: F401  (fixtures)

pytestmark = pytest.mark.browser

FAKE_NOTIFICATIONS_SCRIPT = """
window.shown = [];
window.questions = 0;
window.isHidden = false;
Object.defineProperty(document, "hidden", { get: () => window.isHidden });
window.Notification = class extends EventTarget {
  static permission = "default";
  static async requestPermission() {
    window.questions += 1;
    return (Notification.permission = "granted");
  }
  constructor(title, { body }) {
    super();
    window.shown.push([title, body]);
  }
};
"""
"""Replaces what people see, and lets the test hide the window."""

TELL_VISIBLE_SCRIPT = """
const { session } = document.querySelector("script[data-url$=newest]").dataset;
const otherWindow = new BroadcastChannel(`panel-visible-${session}`);
setTimeout(() => otherWindow.postMessage("visible"), 100);
"""
"""Does what a visible window does when the inbox changes."""


def report(site, key):
    with site.app.app_context():
        owner = session.merge(site.app.cast.owner)
        inbox.record([inbox.Report("task_failed", key, owner.id, f"{key} failed", path="/tasks")])
        session.commit()


def change_inbox(page):
    """Do what live.js does in the window that holds the stream."""
    page.evaluate(
        """document.dispatchEvent(
            new CustomEvent("panel:inbox-changed", { detail: { holdsStream: true } })
        )"""
    )
    page.wait_for_timeout(1000)
    return page.evaluate("shown")


def test_hidden_window_notifies_once_after_a_click_turned_it_on(site, open_page):
    page = open_page("screen")
    page.add_init_script(FAKE_NOTIFICATIONS_SCRIPT)
    page.goto(f"{site.url}/notifications/preferences")
    page.evaluate("isHidden = true")
    report(site, "Backup of web-1")
    assert (change_inbox(page), page.evaluate("questions")) == ([], 0)
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("button", name="Turn off")).to_be_focused()
    assert page.evaluate("questions") == 1
    message = ["Failed tasks", "Backup of web-1 failed"]
    assert change_inbox(page) == [message]
    assert change_inbox(page) == [message]
    report(site, "Start of web-2")
    page.evaluate("isHidden = false")
    assert change_inbox(page) == [message]
    page.evaluate("isHidden = true")
    page.evaluate(TELL_VISIBLE_SCRIPT)
    assert change_inbox(page) == [message]
    assert change_inbox(page) == [message, ["Failed tasks", "Start of web-2 failed"]]
    for number in range(8):
        report(site, f"Stop of db-{number}")
    burst = [["Failed tasks", f"Stop of db-{number} failed"] for number in (5, 6, 7)]
    assert change_inbox(page)[2:] == [*burst, ["Inbox", "and 5 more"]]
    page.get_by_role("button", name="Turn off").click()
    report(site, "Stop of web-3")
    assert len(change_inbox(page)) == 6
