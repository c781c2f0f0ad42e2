"""Notifications and preferences by the API."""

import pytest

from panel.core.db import session
from panel.models import Member, ResourceGrant
from panel.schemas.inbox import INBOX_KINDS
from panel.services import inbox
from panel.services.inbox import recording
from tests.support.cast import UNKNOWN_ID


def list_messages(api_as, caller="owner", **query):
    return api_as(caller, "GET", "/api/notifications", query_string=query).json["notifications"]["data"]


def test_schemas_and_service_have_the_same_kinds():
    assert tuple(inbox.KINDS) == INBOX_KINDS


def test_notifications_are_listed_and_marked_read(api_as, report):
    for number in range(3):
        report(f"task:{number}")
    rows = list_messages(api_as)
    assert [row["message"] for row in rows] == ["Backup of web-1 failed: disk full"] * 3
    assert (rows[0]["read_at"], rows[0]["path"]) == (None, "/tasks")
    answer = api_as("owner", "POST", "/api/notifications/read", json={"ids": [rows[0]["id"]]})
    assert answer.json["message"] == "Notifications marked as read: 1."
    assert len(list_messages(api_as, unread="true")) == 2
    assert api_as("owner", "POST", "/api/notifications/read", json={"all": True}).status_code == 200
    assert list_messages(api_as, unread="true") == []
    assert len(list_messages(api_as, unread="false", kind="task_failed")) == 3
    assert list_messages(api_as, kind="traffic") == []


@pytest.mark.parametrize("body", [{}, {"ids": []}, {"ids": [UNKNOWN_ID]}, {"ids": [UNKNOWN_ID], "all": True}])
def test_read_needs_existing_ids_or_all(api_as, body):
    answer = api_as("owner", "POST", "/api/notifications/read", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ids"])


def test_foreign_notification_is_not_marked(api_as, report):
    report(caller="outsider")
    [row] = list_messages(api_as, "outsider")
    assert list_messages(api_as) == []
    assert api_as("owner", "POST", "/api/notifications/read", json={"ids": [row["id"]]}).status_code == 422
    assert list_messages(api_as, "outsider", unread="true") == [row]


def test_cause_is_recorded_once(report, read_inbox):
    assert (report(), report(), len(read_inbox())) == (1, 0, 1)


def test_members_get_what_they_may_see(api_as, cast, report):
    """The viewer sees all of the owner's resources, the member only what was granted."""
    mine, other = cast.instance(), cast.instance()
    member_id = session.query(Member.id).filter_by(account_id=cast.member.id).scalar()
    session.add(ResourceGrant(member_id=member_id, resource_id=mine.id, resource_type="instance"))
    report("a", resource_id=mine.id)
    report("b", resource_id=other.id)
    report("c", kind="balance")
    report("d", kind="team")
    assert len(list_messages(api_as)) == 4
    assert [row["resource_id"] for row in list_messages(api_as, "viewer")] == [other.id, mine.id]
    granted = [row["resource_id"] for row in list_messages(api_as, "member", kind="task_failed")]
    assert granted == [mine.id]
    session.query(ResourceGrant).delete()
    session.commit()
    assert list_messages(api_as, "member", kind="task_failed") == []


def test_personal_message_is_for_the_person_only(api_as, report):
    report(kind="security", is_personal=True)
    assert len(list_messages(api_as)) == 1
    assert list_messages(api_as, "viewer") == list_messages(api_as, "member") == []


def test_preferences_decide_where_messages_go(api_as, report, read_inbox, sent_mails):
    rows = {row["kind"]: row for row in api_as("owner", "GET", "/api/notification-preferences").json["preferences"]}
    assert (rows["task_failed"]["inbox"], rows["task_failed"]["mail"], rows["traffic"]["mail"]) == (True, False, True)
    report("a")
    report("b", kind="traffic")
    assert [mail["To"] for mail in sent_mails()] == ["owner@example.com"]
    changes = [{"kind": "task_failed", "mail": True}, {"kind": "traffic", "inbox": False, "mail": False}]
    answer = api_as("owner", "PATCH", "/api/notification-preferences", json={"preferences": changes})
    changed = {row["kind"]: row for row in answer.json["preferences"]}
    assert changed["task_failed"] == rows["task_failed"] | {"mail": True}
    report("c")
    report("d", kind="traffic")
    assert (len(read_inbox(kind="task_failed")), len(read_inbox(kind="traffic"))) == (2, 1)
    mail = sent_mails()[-1]
    assert mail["Subject"] == "Failed tasks"
    assert "Backup of web-1 failed: disk full" in mail.get_body(("plain",)).get_content()


def test_security_cannot_be_turned_off(api_as):
    body = {"preferences": [{"kind": "security", "mail": False}]}
    answer = api_as("owner", "PATCH", "/api/notification-preferences", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["preferences"])


def test_member_has_no_preference_of_kinds_beyond_the_role(api_as):
    kinds = {row["kind"] for row in api_as("viewer", "GET", "/api/notification-preferences").json["preferences"]}
    assert kinds >= {"traffic", "security", "team"}
    assert "balance" not in kinds
    body = {"preferences": [{"kind": "balance", "mail": True}]}
    assert api_as("viewer", "PATCH", "/api/notification-preferences", json=body).status_code == 422


def test_inbox_and_mails_are_bounded(report, read_inbox, sent_mails, monkeypatch):
    monkeypatch.setattr(recording, "MAX_MESSAGES", 5)
    monkeypatch.setattr(recording, "MAX_MAILS_PER_HOUR", 3)
    for number in range(8):
        report(f"traffic:{number}", kind="traffic", text=str(number))
    assert read_inbox() == ["3", "4", "5", "6", "7"]
    assert len(sent_mails()) == 3
