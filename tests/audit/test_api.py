"""The audit log in both APIs: entries of the account, entries of the platform, filters, CSV."""

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Member
from panel.services import audit, tokens
from panel.services.audit import entries

OWN_LOG_PATH, ADMIN_LOG_PATH = "/api/activity", "/api/v1/system/admin-logs"
NOON_UTC = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def add_entry(rolled_back_app, cast):
    def add(**facts):
        entry = audit.add(
            **{
                "account_id": cast.owner.id,
                "person": "owner@example.com",
                "person_id": cast.owner.id,
                "person_kind": "owner",
                "ip": "192.0.2.1",
                "action": "user.instance.start",
                "changes": {"did": "changed"},
                **facts,
            }
        )
        session.commit()
        return entry

    return add


def read_ids(answer):
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json["data"]]


def test_owner_reads_account_entries_newest_first(api_as, cast, add_entry):
    first = add_entry()
    second = add_entry(person="member@example.com", person_id=cast.member.id, person_kind="member")
    add_entry(account_id=cast.outsider.id, person_id=cast.outsider.id)
    add_entry(account_id=None, person_kind="operator")
    answer = api_as("owner", "GET", OWN_LOG_PATH)
    assert read_ids(answer) == [second.id, first.id]
    assert (answer.json["total"], answer.json["current_page"], answer.json["last_page"]) == (2, 1, 1)
    assert answer.json["data"][1] == {
        "id": first.id,
        "created_at": answer.json["data"][1]["created_at"],
        "person": "owner@example.com",
        "person_id": cast.owner.id,
        "person_kind": "owner",
        "impersonator": None,
        "token_id": None,
        "token_name": None,
        "ip": "192.0.2.1",
        "action": "user.instance.start",
        "object_type": None,
        "object_id": None,
        "object_name": None,
        "changes": {"did": "changed"},
        "also": [],
    }


def test_member_reads_own_entries_or_all_with_team_manage(api_as, cast, add_entry):
    first = add_entry()
    second = add_entry(person="viewer@example.com", person_id=cast.viewer.id, person_kind="member")
    assert read_ids(api_as("viewer", "GET", OWN_LOG_PATH)) == [second.id]
    assert api_as("viewer", "GET", f"{OWN_LOG_PATH}/export").text.count("\r\n") == 2
    role = session.scalar(select(Member).where(Member.account_id == cast.viewer.id)).role
    role.permissions = [*role.permissions, "team.manage"]
    session.commit()
    assert read_ids(api_as("viewer", "GET", OWN_LOG_PATH)) == [second.id, first.id]


@pytest.mark.parametrize("reach", ["chosen", "projects"])
def test_member_with_limited_reach_reads_only_own_entries(api_as, browser_as, cast, add_entry, reach):
    """IDT-44: also with `team.manage`."""
    add_entry(object_name="Payroll")
    own_entry = add_entry(person="member@example.com", person_id=cast.member.id, person_kind="member")
    session.scalar(select(Member).where(Member.account_id == cast.member.id)).reach = reach
    session.commit()
    assert read_ids(api_as("member", "GET", OWN_LOG_PATH)) == [own_entry.id]
    for page in ("/activity/log", "/activity/log/export"):
        assert "Payroll" not in browser_as("member").get(page).text


def test_audit_log_requires_account_scope(api_as, cast):
    cast.tokens["narrow"] = tokens.issue("user", name="n", account=cast.owner, scopes=["instances:read"])[1]
    session.commit()
    for path in (OWN_LOG_PATH, f"{OWN_LOG_PATH}/export"):
        assert api_as("narrow", "GET", path).status_code == 403


def test_operator_address_is_hidden_from_customers(api_as, add_entry):
    add_entry(
        person="admin@example.com", person_kind="operator", ip="203.0.113.5", also=["instance of-another-customer"]
    )
    add_entry(impersonator="admin@example.com", token_name="call 17", ip="203.0.113.5")
    for row in api_as("owner", "GET", OWN_LOG_PATH).json["data"]:
        assert (row["ip"], row["token_name"]) == (None, None)
        assert row["also"] in (None, [])
    file = api_as("owner", "GET", f"{OWN_LOG_PATH}/export").text
    assert "203.0.113.5" not in file
    assert "another" not in file
    assert "another" in api_as("admin", "GET", f"{ADMIN_LOG_PATH}/export").text
    assert read_ids(api_as("owner", "GET", f"{OWN_LOG_PATH}?search=203.0.113.5")) == []
    assert len(read_ids(api_as("admin", "GET", f"{ADMIN_LOG_PATH}?search=203.0.113.5"))) == 2


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("search=shop", {"shop"}),
        ("search=SHOP%20f", {"shop"}),
        ("search=100%25", set()),
        ("search=203.0.113.7", {"away"}),
        ("search=instance.start", {"shop", "away", "old"}),
        ("search=sup", {"acted"}),
        ("action=user.task.cancel", {"acted"}),
        ("action=user.task", set()),
        ("person=ada@example.com", {"away"}),
        ("person=support@example.com", {"acted"}),
        ("object_id=7", {"shop"}),
        ("since=2026-03-04T13:00:00Z", {"acted"}),
        ("since=2026-03-04T13:00:00%2B01:00", {"shop", "away", "acted"}),
        ("until=2026-03-04T12:00:00", {"shop", "away", "old"}),
        ("until=2026-03-04", {"old"}),
        ("since=2026-03-01&until=2026-03-02T00:00:00Z", {"old"}),
        ("search=shop&action=user.task.cancel", set()),
    ],
)
def test_audit_log_filters_entries(api_as, add_entry, query, matches):
    later = NOON_UTC + timedelta(days=1)
    entries_by_name = {
        "shop": add_entry(object_name="Shop front", object_id="7", created_at=NOON_UTC),
        "away": add_entry(ip="203.0.113.7", person="ada@example.com", created_at=NOON_UTC),
        "acted": add_entry(impersonator="support@example.com", action="user.task.cancel", created_at=later),
        "old": add_entry(created_at=NOON_UTC - timedelta(days=3)),
    }
    for caller, path in (("owner", OWN_LOG_PATH), ("admin", ADMIN_LOG_PATH)):
        expected = {entries_by_name[name].id for name in matches}
        if caller == "owner" and "203." in query:
            expected = {entries_by_name["away"].id}
        assert set(read_ids(api_as(caller, "GET", f"{path}?{query}"))) == expected, caller


@pytest.mark.parametrize("wrong", ["yesterday", "", "2026-13-01", "0001-01-01T00:00:00%2B14:00", "1%00", "12345"])
def test_invalid_since_and_until_are_refused(api_as, wrong):
    for caller, path in (
        ("owner", OWN_LOG_PATH),
        ("owner", f"{OWN_LOG_PATH}/export"),
        ("admin", ADMIN_LOG_PATH),
        ("admin", f"{ADMIN_LOG_PATH}/export"),
    ):
        for name in ("since", "until"):
            answer = api_as(caller, "GET", f"{path}?{name}={wrong}")
            assert answer.status_code == 422, (path, wrong)
            assert "%00" in wrong or name in answer.json["errors"]


def test_operators_read_all_entries_with_target_user(api_as, cast, add_entry):
    first, second = add_entry(), add_entry(account_id=None, person_kind="operator")
    third = add_entry(account_id="gone")
    answer = api_as("admin", "GET", ADMIN_LOG_PATH)
    assert read_ids(answer) == [third.id, second.id, first.id]
    assert answer.json["meta"]["total"] == 3
    users = [row["target_user"] for row in answer.json["data"]]
    assert users == [{"id": "gone", "email": None}, None, {"id": cast.owner.id, "email": "owner@example.com"}]


@pytest.mark.parametrize(
    ("caller", "path"), [("owner", f"{OWN_LOG_PATH}/export"), ("admin", f"{ADMIN_LOG_PATH}/export")]
)
def test_audit_log_csv_escapes_formulas(api_as, add_entry, monkeypatch, caller, path):
    monkeypatch.setattr(entries, "EXPORT_BATCH_SIZE", 2)
    formulas = ["=1+1", "+1", "-1", "@x", "\tx", "\n=1", "\uff1d1", "\uff20x"]
    names = [*formulas, 'a "quoted", name', "two\r\nlines", "Zoë", ""]
    for name in names:
        add_entry(object_name=name, created_at=NOON_UTC)
    answer = api_as(caller, "GET", path)
    assert answer.content_type == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="')
    assert answer.headers["Cache-Control"] == "no-store"
    assert not {"Content-Length", "ETag"} & set(answer.headers.keys())  # the file is streamed
    heading, *lines = csv.reader(io.StringIO(answer.text, newline=""))
    assert tuple(heading) == audit.EXPORT_COLUMNS
    rows = [dict(zip(heading, line, strict=True)) for line in lines]
    expected = [*(f"'{text}" for text in formulas), 'a "quoted", name', "two\r\nlines", "Zoë", ""]
    assert [row["object_name"] for row in reversed(rows)] == expected
    assert rows[0]["created_at"] == "2026-03-04T12:00:00.000Z"
    assert rows[0]["changes"] == '{"did":"changed"}'
    assert api_as(caller, "GET", f"{path}?search=quoted").text.count("\r\n") == 2


def test_audit_log_csv_has_maximum_length(api_as, add_entry, monkeypatch):
    monkeypatch.setattr(entries, "EXPORT_BATCH_SIZE", 2)
    monkeypatch.setattr(entries, "MAX_EXPORTED_ENTRIES", 3)
    for _ in range(5):
        add_entry()
    assert api_as("owner", "GET", f"{OWN_LOG_PATH}/export").text.count("\r\n") == 4


def test_empty_audit_log_csv_has_only_header(api_as):
    assert api_as("owner", "GET", f"{OWN_LOG_PATH}/export").text == ",".join(audit.EXPORT_COLUMNS) + "\r\n"


def test_audit_log_query_count_is_constant(api_as, add_entry, queries):
    def count_queries(caller, path):
        queries.clear()
        api_as(caller, "GET", path)
        return len(queries)

    add_entry()
    api_as("owner", "GET", OWN_LOG_PATH)
    few = count_queries("owner", OWN_LOG_PATH), count_queries("admin", ADMIN_LOG_PATH)
    for _ in range(20):
        add_entry()
    assert (count_queries("owner", OWN_LOG_PATH), count_queries("admin", ADMIN_LOG_PATH)) == few
