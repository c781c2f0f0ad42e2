"""The audit log on the pages of customers and of operators."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, AuditEntry
from panel.services import audit

MINE, ALL = "/activity/log", "/admin/audit"
PART = {"HX-Request": "true", "HX-Request-Type": "partial"}


@pytest.fixture
def deed(as_, cast):
    """The owner's token stores a key."""
    as_("owner", "POST", "/api/ssh-key/generate", json={"name": "laptop", "algorithm": "ed25519"})
    return session.scalar(select(AuditEntry))


def test_a_customer_sees_who_did_what(browse, deed):
    page = browse("owner").get(MINE).text
    for words in ("Generate", "owner@example.com", "with the token test", "laptop", "127.0.0.1"):
        assert words in page, words
    assert 'href="/activity"' in page
    assert 'href="/activity/log"' in browse("owner").get("/activity").text
    for who in ("outsider", "viewer"):
        assert "laptop" not in browse(who).get(MINE).text


def test_whoever_acts_as_a_customer_is_told_so_to_the_customer(browse, cast, as_):
    """By a program as at the pages, with words that say more than that something was started and stopped."""
    made = as_("admin", "POST", f"/api/v1/user/{cast.owner.id}/impersonate").json["data"]["token"]
    as_("nobody", "POST", "/api/profile/impersonation/stop", headers={"Authorization": f"Bearer {made}"})
    operator = browse("admin")
    operator.post(f"/admin/customers/{cast.owner.id}/impersonate")
    operator.post("/impersonation/stop")
    page = browse("owner").get(MINE).text
    assert page.count("Begin to act as the person") == page.count("Stop acting as the person") == 2


def test_platform_s_deeds_without_their_address(browse, cast, as_):
    made = cast.instance(display_name="Shop")
    as_("admin", "PATCH", f"/api/v1/instance/{made.id}", json={"notes": "n"})
    page = browse("owner").get(MINE).text
    assert "for the platform" in page
    assert "notes" in page
    assert "127.0.0.1" not in page


@pytest.mark.parametrize(("who", "address"), [("owner", MINE), ("admin", ALL)])
def test_filters_and_the_same_as_a_file(browse, cast, deed, who, address):
    browser = browse(who)
    assert deed.object_id in browser.get(f"{address}?search=lapt").text
    for other in ("search=zzz", "since=2126-01-01", "until=2020-01-01", "object_id=x", "person=x", "action=x"):
        assert "Nothing matches" in browser.get(f"{address}?{other}").text, other
    for nonsense in ("since=yesterday", "until=0001-01-01", "page=x"):
        assert deed.object_id in browser.get(f"{address}?{nonsense}").text, nonsense
    part = browser.get(f"{address}?object_id={deed.object_id}", headers=PART).text
    assert "<html" not in part
    assert f'href="{address}/export?object_id={deed.object_id}"' in part
    file = browser.get(f"{address}/export?object_id={deed.object_id}")
    assert file.mimetype == "text/csv"
    assert file.text.count("\r\n") == 2
    assert browser.get(f"{address}/export?search=zzz").text.count("\r\n") == 1


def test_days_are_the_person_s(browse, cast, world):
    from datetime import UTC, datetime

    cast.owner.timezone = "Asia/Tokyo"
    facts = {"person": "x", "person_kind": "owner", "ip": "192.0.2.1", "action": "x", "changes": {"did": "asked"}}
    night = datetime(2026, 3, 4, 23, tzinfo=UTC)  # in Tokyo it is the morning of the next day
    audit.add(account_id=cast.owner.id, object_name="Nightly", created_at=night, **facts)
    session.commit()
    browser = browse("owner")
    assert "Nightly" in browser.get(f"{MINE}?since=2026-03-05&until=2026-03-05").text
    assert "Nightly" not in browser.get(f"{MINE}?since=2026-03-04&until=2026-03-04").text


def test_an_operator_opens_an_entry(browse, cast, deed):
    operator = browse("admin")
    assert f'href="{ALL}/{deed.id}"' in operator.get(ALL).text
    page = operator.get(f"{ALL}/{deed.id}").text
    for words in ("owner@example.com", "127.0.0.1", "user.ssh_key.generate", "laptop", deed.token_id, "Made"):
        assert words in page, words
    assert operator.get(f"{ALL}/none").status_code == 404
    assert browse("owner").get(f"{ALL}/{deed.id}").status_code == 403


def test_every_kind_of_entry_has_a_page(browse, world, cast):
    for did in ("made", "removed", "changed", "asked", "refused"):
        changes = {"did": did, "fields": ["notes"], "task": "instance_start"}
        facts = {"person": "admin@example.com", "person_kind": "operator", "impersonator": None, "ip": "192.0.2.1"}
        made = audit.add(action="admin_plans.update", account_id="gone", changes=changes, also=["plan S"], **facts)
        session.commit()
        page = browse("admin").get(f"{ALL}/{made.id}").text
        assert "Gone by now" in page
        assert "plan S" in page


def test_operators_get_there_from_a_customer_and_an_instance(browse, cast):
    made = cast.instance()
    operator = browse("admin")
    assert f"/admin/audit?object_id={made.id}" in operator.get(f"/admin/instances/{made.id}").text
    link = f"/admin/audit?account_id={cast.owner.id}"
    assert link in operator.get(f"/admin/customers/{cast.owner.id}").text
    assert "Customer: " in operator.get(link).text


def test_support_may_read_it_and_others_may_not(browse, cast):
    operator = session.get(Account, cast.admin.id)
    for role, status in (("support", 200), ("read_only", 200), (None, 403)):
        operator.operator_role = role
        session.commit()
        assert browse("admin").get(ALL).status_code == status, role


@pytest.mark.parametrize(("who", "address"), [("owner", MINE), ("admin", ALL)])
def test_pages_cost_the_same_for_many(browse, as_, queries, who, address):
    def cost():
        queries.clear()
        browser.get(address)
        return len(queries)

    browser = browse(who)
    store = lambda: as_("owner", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"})  # noqa: E731
    store()
    browser.get(address)
    few = cost()
    for _ in range(5):
        store()
    assert cost() == few
