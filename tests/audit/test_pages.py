"""The audit log on the pages of customers and of operators."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, AuditEntry
from panel.services import audit
from panel.web.audit_labels import OPERATION_LABELS

OWN_LOG_PAGE, ADMIN_LOG_PAGE = "/activity/log", "/admin/audit"
PARTIAL_HEADERS = {"HX-Request": "true", "HX-Request-Type": "partial"}


@pytest.fixture
def key_generation_entry(api_as, cast):
    """The entry of an SSH key that was generated with the owner's token."""
    api_as("owner", "POST", "/api/ssh-key/generate", json={"name": "laptop", "algorithm": "ed25519"})
    return session.scalar(select(AuditEntry))


def test_customer_log_page_shows_entry_details(browser_as, key_generation_entry):
    page = browser_as("owner").get(OWN_LOG_PAGE).text
    for text in ("Generate", "owner@example.com", "with the token test", "laptop", "127.0.0.1"):
        assert text in page, text
    assert 'href="/activity"' in page
    assert 'href="/activity/log"' in browser_as("owner").get("/activity").text
    for caller in ("outsider", "viewer"):
        assert "laptop" not in browser_as(caller).get(OWN_LOG_PAGE).text


def test_logs_of_customers_and_operators_have_the_same_heads(browser_as, key_generation_entry):
    pages = [("owner", OWN_LOG_PAGE), ("admin", ADMIN_LOG_PAGE)]
    heads = [re.findall(r'data-column="(\w+)"', browser_as(caller).get(path).text) for caller, path in pages]
    assert heads[0] == heads[1] == ["Action", "Person", "Object", "From", "Time"]


def test_customer_log_page_shows_impersonation(browser_as, cast, api_as):
    """Impersonation by API and by page, with labels that name the impersonation."""
    token = api_as("admin", "POST", f"/api/v1/user/{cast.owner.id}/impersonate").json["data"]["token"]
    api_as("nobody", "POST", "/api/profile/impersonation/stop", headers={"Authorization": f"Bearer {token}"})
    operator = browser_as("admin")
    operator.post(f"/admin/customers/{cast.owner.id}/impersonate")
    operator.post("/impersonation/stop")
    page = browser_as("owner").get(OWN_LOG_PAGE).text
    assert page.count("Start acting as the customer") == page.count("Stop acting as the customer") == 2


def test_customer_log_page_hides_operator_address(browser_as, cast, api_as):
    instance = cast.instance(display_name="Shop")
    api_as("admin", "PATCH", f"/api/v1/instance/{instance.id}", json={"notes": "n"})
    page = browser_as("owner").get(OWN_LOG_PAGE).text
    assert "for the platform" in page
    assert "Notes" in page
    assert "127.0.0.1" not in page


@pytest.mark.parametrize(("caller", "address"), [("owner", OWN_LOG_PAGE), ("admin", ADMIN_LOG_PAGE)])
def test_log_page_filters_and_exports(browser_as, cast, key_generation_entry, caller, address):
    browser = browser_as(caller)
    no_entries = "No matching entries" if caller == "admin" else "Nothing matches"
    assert key_generation_entry.object_id in browser.get(f"{address}?search=lapt").text
    for other in ("search=zzz", "since=2126-01-01", "until=2020-01-01", "object_id=x", "person=x", "action=x"):
        assert no_entries in browser.get(f"{address}?{other}").text, other
    for nonsense in ("since=yesterday", "until=0001-01-01", "page=x"):
        assert key_generation_entry.object_id in browser.get(f"{address}?{nonsense}").text, nonsense
    part = browser.get(f"{address}?object_id={key_generation_entry.object_id}", headers=PARTIAL_HEADERS).text
    assert "<html" not in part
    assert f'href="{address}/export?object_id={key_generation_entry.object_id}"' in part
    file = browser.get(f"{address}/export?object_id={key_generation_entry.object_id}")
    assert file.mimetype == "text/csv"
    assert file.text.count("\r\n") == 2
    assert browser.get(f"{address}/export?search=zzz").text.count("\r\n") == 1


def test_date_filter_uses_time_zone_of_user(browser_as, cast, rolled_back_app):
    from datetime import UTC, datetime

    cast.owner.timezone = "Asia/Tokyo"
    facts = {"person": "x", "person_kind": "owner", "ip": "192.0.2.1", "action": "x", "changes": {"did": "asked"}}
    night = datetime(2026, 3, 4, 23, tzinfo=UTC)  # the next day in Tokyo
    audit.add(account_id=cast.owner.id, object_name="Nightly", created_at=night, **facts)
    session.commit()
    browser = browser_as("owner")
    assert "Nightly" in browser.get(f"{OWN_LOG_PAGE}?since=2026-03-05&until=2026-03-05").text
    assert "Nightly" not in browser.get(f"{OWN_LOG_PAGE}?since=2026-03-04&until=2026-03-04").text


def test_admin_entry_page_shows_details(browser_as, cast, key_generation_entry):
    operator = browser_as("admin")
    assert f'href="{ADMIN_LOG_PAGE}/{key_generation_entry.id}"' in operator.get(ADMIN_LOG_PAGE).text
    page = operator.get(f"{ADMIN_LOG_PAGE}/{key_generation_entry.id}").text
    for text in (
        "owner@example.com",
        "127.0.0.1",
        "user.ssh_key.generate",
        "laptop",
        key_generation_entry.token_id,
        "Created",
    ):
        assert text in page, text
    assert operator.get(f"{ADMIN_LOG_PAGE}/none").status_code == 404
    assert browser_as("owner").get(f"{ADMIN_LOG_PAGE}/{key_generation_entry.id}").status_code == 403


def test_admin_entry_page_renders_every_result(browser_as, rolled_back_app, cast):
    for did in ("made", "removed", "changed", "asked", "refused"):
        changes = {"did": did, "fields": ["notes"], "task": "instance_start"}
        facts = {"person": "admin@example.com", "person_kind": "operator", "impersonator": None, "ip": "192.0.2.1"}
        entry = audit.add(action="admin_plans.update", account_id="gone", changes=changes, also=["plan S"], **facts)
        session.commit()
        page = browser_as("admin").get(f"{ADMIN_LOG_PAGE}/{entry.id}").text
        assert "Deleted customer" in page
        assert "plan S" in page


@pytest.mark.parametrize(("operation", "label"), [("opened", "Opened"), ("closed", "Closed")])
def test_admin_entry_page_shows_console_result(browser_as, cast, operation, label):
    person = {"person": "owner@example.com", "person_kind": "owner", "ip": "192.0.2.1"}
    changes = {"did": operation, "kind": "screen"}
    entry = audit.add(action=f"console.{operation}", account_id=cast.owner.id, changes=changes, **person)
    session.commit()
    page = browser_as("admin").get(f"{ADMIN_LOG_PAGE}/{entry.id}").text
    assert re.search(rf"Result</dt>\s*<dd[^>]*>\s*{label}\s*</dd>", page)


def test_instance_and_customer_pages_link_to_audit_log(browser_as, cast):
    instance = cast.instance()
    operator = browser_as("admin")
    assert f"/admin/audit?object_id={instance.id}" in operator.get(f"/admin/instances/{instance.id}").text
    link = f"/admin/audit?account_id={cast.owner.id}"
    assert link in operator.get(f"/admin/customers/{cast.owner.id}").text
    assert "Customer: " in operator.get(link).text


def test_admin_log_page_requires_operator_role(browser_as, cast):
    operator = session.get(Account, cast.admin.id)
    for role, status in (("support", 200), ("read_only", 200), (None, 403)):
        operator.operator_role = role
        session.commit()
        assert browser_as("admin").get(ADMIN_LOG_PAGE).status_code == status, role


@pytest.mark.parametrize(("caller", "address"), [("owner", OWN_LOG_PAGE), ("admin", ADMIN_LOG_PAGE)])
def test_log_page_query_count_is_constant(browser_as, api_as, queries, caller, address):
    def count_queries():
        queries.clear()
        browser.get(address)
        return len(queries)

    browser = browser_as(caller)
    generate_key = lambda: api_as("owner", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"})  # noqa: E731
    generate_key()
    browser.get(address)
    few = count_queries()
    for _ in range(5):
        generate_key()
    assert count_queries() == few


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_writing_operations_have_audit_label(app, method):
    """Console sockets and path aliases write no entries."""
    endpoints = {rule.endpoint for rule in app.url_map.iter_rules() if method in rule.methods and "." in rule.endpoint}
    unlabeled = {
        endpoint
        for endpoint in endpoints
        if not hasattr(app.view_functions[endpoint], "audit_label")
        and endpoint.rpartition(".")[2] not in OPERATION_LABELS
        and not endpoint.startswith("sockets.")
    }
    assert unlabeled == set()
