"""The audit log in both dialects: own trail, the platform's log, filters, CSV."""

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Member
from panel.services import audit, tokens
from panel.services.audit import entries

MINE, ALL = "/api/activity", "/api/v1/system/admin-logs"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def add(world, cast):
    def added(**facts):
        made = audit.add(
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
        return made

    return added


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json["data"]]


def test_the_owner_sees_the_account_s_trail_newest_first(as_, cast, add):
    first = add()
    second = add(person="member@example.com", person_id=cast.member.id, person_kind="member")
    add(account_id=cast.outsider.id, person_id=cast.outsider.id)
    add(account_id=None, person_kind="operator")
    answer = as_("owner", "GET", MINE)
    assert ids(answer) == [second.id, first.id]
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


def test_a_member_sees_own_deeds_and_with_team_manage_all(as_, cast, add):
    first = add()
    second = add(person="viewer@example.com", person_id=cast.viewer.id, person_kind="member")
    assert ids(as_("viewer", "GET", MINE)) == [second.id]
    assert as_("viewer", "GET", f"{MINE}/export").text.count("\r\n") == 2
    role = session.scalar(select(Member).where(Member.account_id == cast.viewer.id)).role
    role.permissions = [*role.permissions, "team.manage"]
    session.commit()
    assert ids(as_("viewer", "GET", MINE)) == [second.id, first.id]


@pytest.mark.parametrize("reach", ["chosen", "projects"])
def test_who_works_on_chosen_resources_reads_of_no_others(as_, browse, cast, add, reach):
    """IDT-44: also with `team.manage`."""
    add(object_name="Payroll")
    mine = add(person="member@example.com", person_id=cast.member.id, person_kind="member")
    session.scalar(select(Member).where(Member.account_id == cast.member.id)).reach = reach
    session.commit()
    assert ids(as_("member", "GET", MINE)) == [mine.id]
    for page in ("/activity/log", "/activity/log/export"):
        assert "Payroll" not in browse("member").get(page).text


def test_it_needs_the_account_scope(as_, cast):
    cast.tokens["narrow"] = tokens.issue("user", name="n", account=cast.owner, scopes=["instances:read"])[1]
    session.commit()
    for path in (MINE, f"{MINE}/export"):
        assert as_("narrow", "GET", path).status_code == 403


def test_customers_are_not_told_from_where_the_platform_acted(as_, add):
    add(person="admin@example.com", person_kind="operator", ip="203.0.113.5", also=["instance of-another-customer"])
    add(impersonator="admin@example.com", token_name="call 17", ip="203.0.113.5")
    for row in as_("owner", "GET", MINE).json["data"]:
        assert (row["ip"], row["token_name"]) == (None, None)
        assert row["also"] in (None, [])
    file = as_("owner", "GET", f"{MINE}/export").text
    assert "203.0.113.5" not in file
    assert "another" not in file
    assert "another" in as_("admin", "GET", f"{ALL}/export").text
    assert ids(as_("owner", "GET", f"{MINE}?search=203.0.113.5")) == []
    assert len(ids(as_("admin", "GET", f"{ALL}?search=203.0.113.5"))) == 2


@pytest.mark.parametrize(
    ("query", "found"),
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
def test_filters(as_, add, query, found):
    later = NOON + timedelta(days=1)
    made = {
        "shop": add(object_name="Shop front", object_id="7", created_at=NOON),
        "away": add(ip="203.0.113.7", person="ada@example.com", created_at=NOON),
        "acted": add(impersonator="support@example.com", action="user.task.cancel", created_at=later),
        "old": add(created_at=NOON - timedelta(days=3)),
    }
    for who, path in (("owner", MINE), ("admin", ALL)):
        expected = {made[name].id for name in found}
        if who == "owner" and "203." in query:
            expected = {made["away"].id}
        assert set(ids(as_(who, "GET", f"{path}?{query}"))) == expected, who


@pytest.mark.parametrize("wrong", ["yesterday", "", "2026-13-01", "0001-01-01T00:00:00%2B14:00", "1%00", "12345"])
def test_moments_that_are_none_are_422(as_, wrong):
    for who, path in (("owner", MINE), ("owner", f"{MINE}/export"), ("admin", ALL), ("admin", f"{ALL}/export")):
        for name in ("since", "until"):
            answer = as_(who, "GET", f"{path}?{name}={wrong}")
            assert answer.status_code == 422, (path, wrong)
            assert "%00" in wrong or name in answer.json["errors"]


def test_operators_see_everything_with_whose_it_was(as_, cast, add):
    first, second = add(), add(account_id=None, person_kind="operator")
    third = add(account_id="gone")
    answer = as_("admin", "GET", ALL)
    assert ids(answer) == [third.id, second.id, first.id]
    assert answer.json["meta"]["total"] == 3
    users = [row["target_user"] for row in answer.json["data"]]
    assert users == [{"id": "gone", "email": None}, None, {"id": cast.owner.id, "email": "owner@example.com"}]


@pytest.mark.parametrize(("who", "path"), [("owner", f"{MINE}/export"), ("admin", f"{ALL}/export")])
def test_csv(as_, add, monkeypatch, who, path):
    monkeypatch.setattr(entries, "AT_ONCE", 2)
    formulas = ["=1+1", "+1", "-1", "@x", "\tx", "\n=1", "\uff1d1", "\uff20x"]
    names = [*formulas, 'a "quoted", name', "two\r\nlines", "Zoë", ""]
    for name in names:
        add(object_name=name, created_at=NOON)
    answer = as_(who, "GET", path)
    assert answer.content_type == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="')
    assert answer.headers["Cache-Control"] == "no-store"
    assert not {"Content-Length", "ETag"} & set(answer.headers.keys())  # sent while it is read
    heading, *lines = csv.reader(io.StringIO(answer.text, newline=""))
    assert tuple(heading) == audit.EXPORTED
    rows = [dict(zip(heading, line, strict=True)) for line in lines]
    told = [*(f"'{text}" for text in formulas), 'a "quoted", name', "two\r\nlines", "Zoë", ""]
    assert [row["object_name"] for row in reversed(rows)] == told
    assert rows[0]["created_at"] == "2026-03-04T12:00:00.000Z"
    assert rows[0]["changes"] == '{"did":"changed"}'
    assert as_(who, "GET", f"{path}?search=quoted").text.count("\r\n") == 2


def test_an_export_has_an_end(as_, add, monkeypatch):
    monkeypatch.setattr(entries, "AT_ONCE", 2)
    monkeypatch.setattr(entries, "MOST_EXPORTED", 3)
    for _ in range(5):
        add()
    assert as_("owner", "GET", f"{MINE}/export").text.count("\r\n") == 4


def test_an_export_of_nothing_is_its_heading(as_):
    assert as_("owner", "GET", f"{MINE}/export").text == ",".join(audit.EXPORTED) + "\r\n"


def test_lists_cost_the_same_for_many(as_, add, queries):
    def cost(who, path):
        queries.clear()
        as_(who, "GET", path)
        return len(queries)

    add()
    as_("owner", "GET", MINE)
    few = cost("owner", MINE), cost("admin", ALL)
    for _ in range(20):
        add()
    assert (cost("owner", MINE), cost("admin", ALL)) == few
