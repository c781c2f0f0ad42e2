"""Validation and limits of certificate orders. Their execution: test_orders.py."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, Certificate, Task
from panel.services import settings
from panel.services.certificates import orders
from tests.support.certificates import issue_certificate


@pytest.fixture
def order_certificate(api_as):
    def order_certificate(*domains, caller="owner", **fields):
        body = {"type": "letsencrypt", "domains": list(domains), **fields}
        return api_as(caller, "POST", "/api/certificates", json=body)

    return order_certificate


@pytest.fixture
def create_issued_certificate(cast):
    """Return a function that creates a certificate as after a completed order."""

    def create(*domains, days=90, caller="owner"):
        issued = issue_certificate(domains, days=days, before=1 if days > 0 else 100)
        account = getattr(cast, caller)
        row = Certificate(account_id=account.id, type="letsencrypt", name=domains[0], domains=list(domains))
        row.certificate, row.private_key = issued.pem, issued.key_pem
        row.not_before, row.not_after = issued.certificate.not_valid_before_utc, issued.certificate.not_valid_after_utc
        row.next_attempt_at = orders.calculate_renewal_time(row)
        session.add(row)
        session.commit()
        return row

    return create


def test_certificate_order_enqueues_task(api_as, order_certificate):
    """LBA-06, LBA-07"""
    certificate = order_certificate("Shop.Example.com.", "www.example.com").json["certificate"]
    assert (certificate["domains"], certificate["name"]) == (
        ["shop.example.com", "www.example.com"],
        "shop.example.com",
    )
    assert (certificate["status"], certificate["ordering"]) == ("pending", True)
    [task] = api_as("owner", "GET", f"/api/tasks?resource_id={certificate['id']}").json["data"]
    assert (task["id"], task["status"]) == (certificate["task_id"], "queued")
    [listed_certificate] = api_as("owner", "GET", "/api/certificates?status=pending&type=letsencrypt").json["data"]
    assert listed_certificate["id"] == certificate["id"]
    assert api_as("outsider", "GET", f"/api/task/{task['id']}").status_code == 404


@pytest.mark.parametrize(
    ("domains", "text"),
    [
        (["*.example.com"], "Wildcards are not supported"),
        (["example.com", "*.example.com"], "Wildcards are not supported"),
        (["192.0.2.1"], "full domain name"),
        (["localhost"], "full domain name"),
        (["-a.example.com"], "valid hostname"),
        (["a--b.example.com"], "valid hostname"),
        (["xn--bcher-kva.example"], "valid hostname"),
        (["a..example.com"], "valid hostname"),
        (["a b.example.com"], "valid hostname"),
        (["shop.example.com\n"], "valid hostname"),
        (["https://example.com/"], "valid hostname"),
        ([f"{'a' * 64}.example.com"], "valid hostname"),
        (["_dmarc.example.com"], "underscores"),
        (["a.example.com", "A.example.com."], "Duplicate domain"),
        ([], "Length must be between 1 and 100"),
        ([f"{number}.example.com" for number in range(101)], "Length must be between 1 and 100"),
        ("shop.example.com", "Not a valid list"),
        ([None], "may not be null"),
        ([1], "Not a valid string"),
    ],
)
def test_order_refuses_invalid_domains(order_certificate, api_as, domains, text):
    answer = api_as("owner", "POST", "/api/certificates", json={"type": "letsencrypt", "domains": domains})
    assert answer.status_code == 422
    assert text in str(answer.json["errors"])
    assert {name.partition(".")[0] for name in answer.json["errors"]} == {"domains"}
    assert session.query(Certificate).count() == session.query(Task).count() == 0


def test_certificate_types_require_different_fields(api_as, order_certificate, chain):
    cases = [
        ({"type": "letsencrypt"}, {"domains"}),
        ({}, {"certificate", "private_key"}),
        ({"type": "manual", "certificate": chain.leaf.pem}, {"private_key"}),
        (chain.leaf.body(domains=["shop.example.com"]), {"domains"}),
        (chain.leaf.body(type="letsencrypt", domains=["a.example.com"]), {"certificate", "private_key"}),
    ]
    for body, wrong in cases:
        answer = api_as("owner", "POST", "/api/certificates", json=body)
        assert (answer.status_code, answer.json["errors"].keys()) == (422, wrong), body


def test_order_for_panel_hostname_is_refused(order_certificate, change_config):
    change_config(public_url="https://panel.example.com")
    answer = order_certificate("shop.example.com", "panel.example.com")
    assert (answer.status_code, answer.json["errors"]) == (422, {"domains": ["This is the panel's own name."]})


def test_order_refuses_domain_of_other_account(order_certificate, create_issued_certificate):
    """The domains of both accounts point to the panel, so the authority cannot tell the accounts apart."""
    create_issued_certificate("shop.example.com", "www.example.com", caller="outsider")
    answer = order_certificate("new.example.com", "www.example.com")
    assert answer.status_code == 422
    assert "Another account has a certificate for www.example.com" in answer.json["errors"]["domains"][0]
    assert order_certificate("shop.example.com", caller="outsider").status_code == 200
    assert order_certificate("hop.example.com").status_code == 200
    create_issued_certificate("old.example.com", days=-1, caller="outsider")
    assert order_certificate("old.example.com").status_code == 200


def test_orders_count_toward_certificate_limit(api_as, order_certificate, cast, upload_certificate, chain):
    """LIM-12, LIM-20"""
    api_as("admin", "PUT", f"/api/v1/user/{cast.owner.id}", json={"max_certificates": 2})
    assert order_certificate("a.example.com").status_code == 200
    assert "id" in upload_certificate(chain.leaf)
    assert order_certificate("b.example.com").json["reason"] == "limit_reached"
    assert api_as("owner", "GET", "/api/account/limits").json["data"]["max_certificates"]["used"] == 2
    assert session.query(Task).where(Task.kind == "certificate_order").count() == 1


def test_orders_per_hour_are_limited(api_as, order_certificate, create_issued_certificate, monkeypatch):
    monkeypatch.setattr(orders, "MAX_ORDERS_PER_HOUR", 2)
    assert [order_certificate(f"{name}.example.com").status_code for name in "abc"] == [200, 200, 429]
    renewed = api_as("owner", "POST", f"/api/certificate/{create_issued_certificate('d.example.com').id}/renew")
    assert (renewed.status_code, "Retry-After" in renewed.headers) == (429, True)
    assert order_certificate("a.example.net", caller="outsider").status_code == 200
    for task in session.scalars(select(Task)):
        task.created_at = clock.now() - timedelta(hours=2)
    session.commit()
    assert order_certificate("c.example.com").status_code == 200


def test_uploaded_certificate_has_no_renewal_and_ordered_no_replacement(
    api_as, upload_certificate, chain, create_issued_certificate
):
    answer = api_as("owner", "POST", f"/api/certificate/{upload_certificate(chain.leaf)['id']}/renew")
    assert (answer.status_code, answer.json["reason"]) == (409, "not_renewable")
    row = create_issued_certificate("shop.example.com")
    answer = api_as("owner", "PATCH", f"/api/certificate/{row.id}", json=chain.leaf.body())
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"certificate", "private_key"})
    assert api_as("owner", "PATCH", f"/api/certificate/{row.id}", json={"name": "n"}).status_code == 200


def test_failed_order_returns_error(api_as, order_certificate, cast):
    """LBA-07"""
    certificate = session.get(Certificate, order_certificate("a.example.com").json["certificate"]["id"])
    orders.record_failure(certificate, "The authority said no.")
    session.commit()
    [row] = api_as("owner", "GET", "/api/certificates?status=failed").json["data"]
    assert (row["status"], row["error"], row["renews_at"]) == ("failed", "The authority said no.", None)
    assert row["error_at"]


def test_acme_settings_are_validated_and_saved(api_as):
    url = "/api/v1/system/settings"
    system_settings = api_as("admin", "GET", url).json["data"]["settings"]["system"]
    assert system_settings["acme_directory_url"] == "https://acme-v02.api.letsencrypt.org/directory"
    assert system_settings["acme_contact"] == ""
    for wrong in ({"acme_directory_url": "http://ca.example.com/"}, {"acme_directory_url": ""}, {"acme_contact": "x"}):
        answer = api_as("admin", "POST", url, json=wrong)
        assert (answer.status_code, answer.json["errors"].keys()) == (422, wrong.keys())
    new = {"acme_directory_url": "https://ca.example.com/dir", "acme_contact": "ops@example.com"}
    assert api_as("admin", "POST", url, json=new).status_code == 200
    assert settings.load().acme_contact == "ops@example.com"


def test_deleted_account_leaves_no_certificates(cast, create_issued_certificate):
    create_issued_certificate("shop.example.com")
    session.delete(session.get(Account, cast.owner.id))
    session.commit()
    assert session.query(Certificate).count() == 0
