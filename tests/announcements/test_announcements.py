"""Announcements: who sees them, on pages, by the API and in the inbox."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, Announcement, InboxMessage
from panel.services import announcements
from tests.support.cast import UNKNOWN_ID
from worker.tasks import inbox as tasks

PATH = "/api/v1/announcements"
IN_A_YEAR = f"{clock.now() + timedelta(days=365):%Y-%m-%dT%H:%M:%SZ}"
FORM = {"kind": "maintenance", "title": "Switch", "text": "Short outage", "group_id": "", "owner": ""}


@pytest.fixture
def announce(cast):
    def announce(begins=0, ends=24, **values):
        now = clock.now()
        times = {"starts_at": now + timedelta(hours=begins), "ends_at": now + timedelta(hours=ends)}
        row = announcements.create(**{"kind": "announcement", "name": "News", "text": "New prices"} | times | values)
        session.commit()
        return row

    return announce


def list_titles(api_as, caller):
    return [row["title"] for row in api_as(caller, "GET", "/api/announcements").json["announcements"]["data"]]


def list_recipients():
    query = select(Account.email).join(InboxMessage, InboxMessage.account_id == Account.id)
    return sorted(session.scalars(query).all())


def test_operator_creates_changes_and_deletes(api_as):
    body = {"title": "Switch", "text": "Short outage", "ends_at": IN_A_YEAR}
    row = api_as("admin", "POST", PATH, json=body).json["data"]
    assert (row["kind"], row["audience"], row["status"]) == ("announcement", "all", "shown")
    path = f"/api/v1/announcement/{row['id']}"
    assert api_as("admin", "PATCH", path, json={"text": "Over"}).json["data"]["text"] == "Over"
    assert api_as("admin", "GET", PATH).json["data"][0]["id"] == row["id"]
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "GET", path).status_code == 404


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("ends_at", {"ends_at": "2001-01-01T00:00:00Z"}),
        ("ends_at", {"ends_at": "9999-01-01T00:00:00Z"}),
        ("group_id", {"group_id": UNKNOWN_ID}),
        ("account_id", {"account_id": UNKNOWN_ID}),
        ("title", {"title": ""}),
    ],
)
def test_invalid_announcement_is_a_field_error(api_as, field, values):
    body = {"title": "Switch", "text": "t", "ends_at": IN_A_YEAR, **values}
    answer = api_as("admin", "POST", PATH, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


@pytest.mark.parametrize("caller", ["admin", "member"])
def test_only_customers_are_an_audience(api_as, browser_as, cast, announce, caller):
    account = getattr(cast, caller)
    body = {"title": "Switch", "text": "t", "ends_at": IN_A_YEAR, "account_id": account.id}
    assert list(api_as("admin", "POST", PATH, json=body).json["errors"]) == ["account_id"]
    path = f"/api/v1/announcement/{announce().id}"
    assert list(api_as("admin", "PATCH", path, json={"account_id": account.id}).json["errors"]) == ["account_id"]
    data = FORM | {"starts_at": "2030-01-01T10:00", "ends_at": "2030-01-01T12:00", "owner": account.email}
    answer = browser_as("admin").post("/admin/announcements/new", data=data)
    assert answer.status_code == 422
    assert "This account is no customer" in answer.text


def test_audience_sees_it_in_its_time(api_as, cast, announce):
    announce(name="all")
    announce(name="planned", begins=1)
    announce(name="maintenance", begins=1, kind="maintenance")
    announce(name="over", begins=-2, ends=-1)
    announce(name="customer", account_id=cast.owner.id)
    announce(name="location", group_id=cast.location.id)
    assert list_titles(api_as, "outsider") == ["maintenance", "all"]
    cast.instance("owner")
    assert (
        list_titles(api_as, "owner") == list_titles(api_as, "member") == ["maintenance", "location", "customer", "all"]
    )


def test_person_dismisses_for_itself(api_as, browser_as, announce):
    row = announce(text="New prices from May")
    browser = browser_as("owner")
    assert "New prices from May" in browser.get("/tasks").text
    answer = browser.post(f"/announcements/{row.id}/dismiss", data={"next": "/tasks?x=1"})
    assert (answer.status_code, answer.location) == (303, "/tasks?x=1")
    assert "New prices from May" not in browser.get("/tasks").text
    assert list_titles(api_as, "viewer") == ["News"]
    assert api_as("viewer", "POST", f"/api/announcement/{row.id}/dismiss").status_code == 200
    assert api_as("viewer", "POST", f"/api/announcement/{row.id}/dismiss").status_code == 404


def test_inboxes_get_it_once(cast, announce, monkeypatch):
    monkeypatch.setattr(announcements, "BATCH_ACCOUNTS", 2)
    announce(account_id=cast.owner.id)
    announce(name="later", begins=1)
    for _ in range(2):
        tasks.send_announcements()
    assert list_recipients() == ["member@example.com", "owner@example.com", "viewer@example.com"]
    assert len(session.scalars(select(Announcement).where(Announcement.sent_at.is_not(None))).all()) == 1


def test_operators_form(browser_as, cast):
    browser = browser_as("admin")
    assert "No announcements yet" in browser.get("/admin/announcements").text
    times = {"starts_at": "2030-01-01T10:00", "ends_at": "2030-01-01T12:00"}
    assert browser.post("/admin/announcements/new", data=FORM | times | {"owner": "no@example.com"}).status_code == 422
    cast.admin.timezone = "Europe/Berlin"
    session.commit()
    data = FORM | times | {"owner": "owner@example.com"}
    assert browser.post("/admin/announcements/new", data=data).status_code == 303
    row = session.scalars(select(Announcement)).one()
    assert (row.starts_at.hour, row.account_id, row.name) == (9, cast.owner.id, "Switch")
    path = f"/admin/announcements/{row.id}"
    assert 'value="2030-01-01T10:00"' in browser.get(path).text
    assert browser.post(path, data=data | {"title": "Router"}).status_code == 303
    assert "Router" in browser.get("/admin/announcements").text
    assert browser.post(f"{path}/delete").status_code == 303
    assert session.scalars(select(Announcement)).all() == []
