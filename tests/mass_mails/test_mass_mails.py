"""Mass mails: who gets them, how often, and the log of mails."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, Mail, MailLogEntry, MassMail
from panel.services import accounts, mass_mails
from tests.support.cast import PASSWORD, UNKNOWN_ID
from worker.tasks import mail as mail_tasks
from worker.tasks import mass_mails as tasks

PATH = "/api/v1/mass-mail"
BODY = {"subject": "News for {name}", "text": "Dear {name},\n\nnew prices for {email}.", "mails_per_minute": 2}


@pytest.fixture
def customers(cast):
    for number in range(3):
        accounts.create(email=f"customer-{number}@example.com", password=PASSWORD)
    session.commit()


@pytest.fixture
def started(api_as, customers):
    mass_mail_id = api_as("admin", "POST", PATH, json=BODY).json["data"]["id"]
    assert api_as("admin", "POST", f"{PATH}/{mass_mail_id}/start").json["data"]["total"] == 5
    return session.get(MassMail, mass_mail_id)


def run_batch(monkeypatch, minute):
    later = clock.now() + timedelta(minutes=minute)
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: later)
        tasks.queue_batches()


def test_customers_get_one_mail_each_at_the_chosen_rate(started, sent_mails, monkeypatch):
    """Team members and operators get none; a second run within the minute sends nothing."""
    counts = []
    for minute in (0, 0.1, 1, 2, 3):
        run_batch(monkeypatch, minute)
        counts.append(len(sent_mails()))
    assert counts == [2, 2, 4, 5, 5]
    recipients = {mail["To"] for mail in sent_mails()}
    others = {f"customer-{number}@example.com" for number in range(3)}
    assert recipients == others | {"owner@example.com", "outsider@example.com"}
    [mail] = sent_mails("owner@example.com")
    assert mail["Subject"] == "News for Olga Owner"
    assert "new prices for owner@example.com" in mail.get_body(("plain",)).get_content()
    session.refresh(started)
    assert (started.status, started.queued, started.total) == ("sent", 5, 5)


def test_mail_is_sent_with_its_last_batch(started, monkeypatch):
    started.mails_per_minute = 5
    session.commit()
    run_batch(monkeypatch, 0)
    session.refresh(started)
    assert (started.status, started.queued) == ("sent", 5)


def test_killed_worker_sends_no_mail_twice(started, sent_mails, monkeypatch):
    tasks.queue_batches()
    first, second = session.scalars(select(Mail).order_by(Mail.id)).all()
    mail_tasks.claim(first.id)  # the worker is killed before it records a result
    later = clock.now() + timedelta(minutes=6)
    monkeypatch.setattr(clock, "now", lambda: later)
    for row_id in (first.id, second.id, first.id):
        mail_tasks.send(row_id)
    entries = session.scalars(select(MailLogEntry).order_by(MailLogEntry.id)).all()
    assert [entry.status for entry in entries] == ["unknown", "sent"]
    assert len(sent_mails()) == 1


def test_refused_mail_is_tried_again(started, monkeypatch, sent_mails):
    tasks.queue_batches()
    [first, _] = session.scalars(select(Mail).order_by(Mail.id)).all()
    with monkeypatch.context() as patch:
        patch.setattr(mail_tasks, "submit_message", lambda *_: 1 / 0)
        mail_tasks.send(first.id)
    later = clock.now() + timedelta(minutes=6)
    monkeypatch.setattr(clock, "now", lambda: later)
    mail_tasks.send(first.id)
    assert session.scalars(select(MailLogEntry.status)).all() == ["sent"]


def test_mail_is_paused_resumed_and_deleted(api_as, started, sent_mails, monkeypatch):
    path = f"{PATH}/{started.id}"
    assert api_as("admin", "DELETE", path).json["message"] == "This is not possible: the status is sending."
    assert api_as("admin", "POST", f"{path}/pause").json["data"]["status"] == "paused"
    run_batch(monkeypatch, 0)
    assert sent_mails() == []
    assert api_as("admin", "POST", f"{path}/pause").status_code == 409
    assert api_as("admin", "POST", f"{path}/resume").json["data"]["status"] == "sending"
    run_batch(monkeypatch, 0)
    assert len(sent_mails()) == 2
    assert api_as("admin", "POST", f"{path}/start").status_code == 409
    api_as("admin", "POST", f"{path}/pause")
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "GET", PATH).json["data"] == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", "{password}"),
        ("text", "{name.__class__}"),
        ("text", "{name!r}"),
        ("text", "{"),
        ("subject", "{}"),
        ("group_id", UNKNOWN_ID),
        ("mails_per_minute", 0),
    ],
)
def test_invalid_mail_is_a_field_error(api_as, field, value):
    answer = api_as("admin", "POST", PATH, json=BODY | {field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_draft_is_changed_until_it_is_started(api_as, customers):
    path = f"{PATH}/{api_as('admin', 'POST', PATH, json=BODY).json['data']['id']}"
    row = api_as("admin", "PATCH", path, json={"subject": "Prices"}).json["data"]
    assert (row["subject"], row["text"]) == ("Prices", BODY["text"])
    assert list(api_as("admin", "PATCH", path, json={"text": "{x}"}).json["errors"]) == ["text"]
    assert list(api_as("admin", "PATCH", path, json={"group_id": UNKNOWN_ID}).json["errors"]) == ["group_id"]
    api_as("admin", "POST", f"{path}/start")
    assert api_as("admin", "PATCH", path, json={"subject": "Late"}).json["reason"] == "wrong_status"


def test_suspended_customers_are_counted_recipients(browser_as, cast, customers):
    session.get(Account, cast.outsider.id).suspended_at = clock.now()
    session.commit()
    browser = browser_as("admin")
    assert "Now there are 5 customers, 1 of them suspended." in browser.get("/admin/mass-mails/new").text
    page = browser.get(browser.post("/admin/mass-mails/new", data=BODY | {"group_id": ""}).location).text
    assert "5 customers get this mail. 1 of them is suspended. Up to 2 mails are sent per minute." in page


def test_audience_of_a_location_has_instances_there(api_as, cast):
    cast.instance("outsider")
    body = BODY | {"group_id": cast.location.id}
    mass_mail_id = api_as("admin", "POST", PATH, json=body).json["data"]["id"]
    assert mass_mails.count_recipients(session.get(MassMail, mass_mail_id).group_id) == (1, 0)


def test_log_lists_mails_without_contents(api_as, browser_as, started, sent_mails):
    tasks.queue_batches()
    sent_mails()
    rows = api_as("admin", "GET", "/api/v1/system/email-log").json["data"]
    assert [row["status"] for row in rows] == ["sent", "sent"]
    assert rows[0]["template"] == "mass_mail"
    found = api_as("admin", "GET", "/api/v1/system/email-log", query_string={"search": "olga", "status": "sent"})
    assert [row["recipient"] for row in found.json["data"]] == ["owner@example.com"]
    page = browser_as("admin").get("/admin/mail-log?search=olga").text
    assert "News for Olga Owner" in page
    assert "new prices" not in page


def test_pages_show_preview_and_progress(browser_as, customers, sent_mails):
    browser = browser_as("admin")
    assert "No mass mails yet" in browser.get("/admin/mass-mails").text
    assert browser.post("/admin/mass-mails/new", data=BODY | {"text": "{x}", "group_id": ""}).status_code == 422
    path = browser.post("/admin/mass-mails/new", data=BODY | {"group_id": ""}).location
    page = browser.get(path).text
    assert "5 customers get this mail." in page
    assert "new prices for ada@example.com" in page
    data = BODY | {"group_id": "", "text": "Hello {name}\n\nRead more: https://example.com/prices"}
    assert f"{path}/edit" in page
    assert browser.get(f"{path}/edit").status_code == 200
    assert browser.post(f"{path}/edit", data=data | {"text": "{x}"}).status_code == 422
    assert browser.post(f"{path}/edit", data=data).location == path
    page = browser.get(path).text
    assert "Hello Ada Lovelace" in page
    assert re.search('<a class="btn btn-primary" href="https://example.com/prices"[^>]*>Read more</a>', page)
    assert browser.post(f"{path}/start").status_code == 303
    tasks.queue_batches()
    assert "2 of 5 mails were handed to the mail queue." in browser.get(path).text
    assert "2 of 5" in browser.get("/admin/mass-mails").text
    assert browser.post(f"{path}/pause").status_code == browser.post(f"{path}/resume").status_code == 303
    browser.post(f"{path}/pause")
    assert browser.post(f"{path}/delete").status_code == 303
