"""What open pages learn of a changed inbox, and what browsers show as notifications."""

import re
from datetime import timedelta

import pytest

from panel.auth import live_viewers
from panel.core import clock, live_changes
from panel.core.db import session
from panel.core.live_changes import Change
from panel.models import Account, InboxMessage, LoginSession
from panel.services import sessions

NEWEST = "/notifications/newest"


@pytest.fixture
def published(cast, monkeypatch):
    """The changes of inboxes that commits published."""
    changes = []
    monkeypatch.setattr(live_changes, "publish", changes.extend)
    return lambda: [change for change in changes if change.table == "inbox_messages"]


@pytest.fixture
def load_viewer(cast):
    def sign_in(caller):
        sessions.start(getattr(cast, caller), ip="127.0.0.1", user_agent="test")
        session.commit()
        row = session.query(LoginSession).order_by(LoginSession.id.desc()).first()
        return live_viewers.load_viewers([row.id])[row.id]

    return sign_in


def test_new_and_read_messages_are_published_for_their_readers(browser_as, cast, report, published):
    report()
    assert set(published()) == {Change(cast.owner.id, "inbox_messages"), *team_changes(cast)}
    before = len(published())
    browser_as("owner").post("/notifications/read")
    assert published()[before:] == [Change(cast.owner.id, "inbox_messages")]
    browser_as("owner").post("/notifications/read")
    assert len(published()) == before + 1, "nothing was unread"


def team_changes(cast):
    """The owner's team may see its instances, so it gets the message, too."""
    return [Change(person.id, "inbox_messages") for person in (cast.member, cast.viewer)]


def test_stream_has_only_changes_of_the_persons_own_inbox(cast, load_viewer):
    changes = [Change(getattr(cast, name).id, "inbox_messages") for name in ("owner", "viewer", "outsider", "admin")]
    visible = {name: load_viewer(name).list_visible(changes) for name in ("owner", "viewer", "outsider", "admin")}
    assert visible == {name: [change] for name, change in zip(visible, changes, strict=True)}


def test_newest_messages_are_the_unread_ones_of_the_last_minutes(browser_as, cast, report):
    report("task:old")
    old = session.query(InboxMessage).filter_by(account_id=cast.owner.id).one()
    old.created_at = clock.now() - timedelta(minutes=20)
    report("task:1", path="/tasks/1")
    report("task:2", path="https://example.com/")
    rows = browser_as("owner").get(NEWEST).json
    assert [(row["title"], row["text"]) for row in rows] == [
        ("Failed tasks", "Backup of web-1 failed: disk full"),
        ("Failed tasks", "Backup of web-1 failed: disk full"),
    ]
    assert [row["url"] for row in rows] == ["/tasks/1", "/notifications"]
    assert rows[0]["id"] < rows[1]["id"]
    assert browser_as("outsider").get(NEWEST).json == []
    for number in range(3, 8):
        report(f"task:{number}")
    assert len(browser_as("owner").get(NEWEST).json) == 7  # the browser says how many it does not show
    browser_as("owner").post("/notifications/read")
    assert browser_as("owner").get(NEWEST).json == []


def test_newest_messages_are_in_the_language_of_the_person(browser_as, cast, report):
    session.get(Account, cast.owner.id).language = "de"
    report(kind="traffic")
    assert browser_as("owner").get(NEWEST).json[0]["title"] == "Traffic"
    report("task:2")
    assert browser_as("owner").get(NEWEST).json[1]["title"] == "Fehlgeschlagene Aufgaben"


def test_operator_who_acts_as_a_customer_gets_no_notifications(browser_as, cast, report):
    report()
    operator = browser_as("admin")
    assert operator.post(f"/admin/customers/{cast.owner.id}/impersonate").status_code == 303
    assert "Backup of web-1 failed" in operator.get("/notifications").text
    assert operator.get(NEWEST).json == []


def test_settings_offer_notifications_of_the_browser(browser_as):
    page = browser_as("owner").get("/notifications/preferences").text
    assert 'data-set-notifications="on"' in page
    assert re.search(r'src="/static/[^"]*notifications[^"]*js" data-url="/notifications/newest"', page)
