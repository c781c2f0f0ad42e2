"""Uploaded certificates in the API."""

from datetime import datetime, timedelta

import pytest
from cryptography.hazmat.primitives import hashes
from sqlalchemy import text

from panel.core import clock
from panel.core.db import session
from panel.models import Certificate
from tests.support.certificates import issue_certificate

CERTIFICATE_PATH = "/api/certificate/{}"


def test_uploaded_certificate_is_listed_and_shown(api_as, chain, upload_certificate):
    """LBA-06, LBA-07"""
    row = upload_certificate(chain.leaf, chain.issuing, chain.root)
    assert (row["type"], row["status"], row["name"]) == ("manual", "active", "shop.example.com")
    assert row["domains"] == ["shop.example.com", "www.example.com"]
    assert (row["issuer"], row["key_type"], row["days_left"]) == ("CN=Issuing", "EC P-256", 89)
    assert row["fingerprint"].replace(":", "").lower() == chain.leaf.certificate.fingerprint(hashes.SHA256()).hex()
    ends = datetime.fromisoformat(row["not_after"])
    assert ends == chain.leaf.certificate.not_valid_after_utc
    assert row["certificate"] == chain.leaf.pem
    assert row["chain"] == chain.issuing.pem + chain.root.pem
    shown = api_as("owner", "GET", CERTIFICATE_PATH.format(row["id"])).json["certificate"]
    assert shown == row
    [listed] = api_as("owner", "GET", "/api/certificates").json["data"]
    assert listed.items() <= row.items()
    assert row.keys() - listed.keys() == {"certificate", "chain"}


def test_private_key_is_encrypted_and_never_returned(api_as, chain, upload_certificate, caplog):
    row = upload_certificate(chain.leaf)
    key_line = chain.leaf.key_pem.splitlines()[1]
    assert session.get(Certificate, row["id"]).private_key == chain.leaf.key_pem
    row = session.execute(text("select * from certificates")).mappings().one()
    assert key_line not in str(dict(row))
    answers = [
        api_as("owner", method, path, json=body).text
        for method, path, body in (
            ("GET", CERTIFICATE_PATH.format(row["id"]), None),
            ("GET", "/api/certificates", None),
            ("PATCH", CERTIFICATE_PATH.format(row["id"]), {"name": "n"}),
            ("POST", "/api/certificates", chain.leaf.body(type="nosuch")),
            ("POST", "/api/certificates", chain.leaf.body(certificate=chain.leaf.key_pem)),
            ("GET", "/api/activity", None),
        )
    ]
    assert not any("private_key" in answer and "PRIVATE KEY" in answer for answer in answers)
    assert key_line not in "".join(answers)
    assert key_line not in caplog.text


@pytest.mark.parametrize(
    ("days", "status"),
    [
        (timedelta(days=31), "active"),
        (timedelta(days=29), "expiring"),
        (timedelta(minutes=10), "expiring"),
        (timedelta(minutes=-10), "expired"),
        (timedelta(days=-400), "expired"),
    ],
)
def test_certificate_status_depends_on_remaining_days(api_as, upload_certificate, days, status):
    """LBA-07, LBA-08, LBA-09"""
    row = upload_certificate(issue_certificate(days=days, before=500))
    assert (row["status"], row["days_left"]) == (status, max(0, (days - timedelta(seconds=1)).days))
    for searched_status in ("active", "expiring", "expired", "pending", "failed"):
        certificates = api_as("owner", "GET", f"/api/certificates?status={searched_status}").json["data"]
        assert [one["id"] for one in certificates] == ([row["id"]] if searched_status == status else [])


def test_certificate_status_follows_clock(api_as, upload_certificate, monkeypatch):
    """LBA-08, LBA-09: without a change of the row."""
    row = upload_certificate(issue_certificate(days=90))
    now = clock.now()
    for days, status in ((59, "active"), (61, "expiring"), (91, "expired")):
        monkeypatch.setattr(clock, "now", lambda days=days: now + timedelta(days=days))
        cast_row = session.get(Certificate, row["id"])
        assert cast_row.status == status


def test_certificate_list_sorts_filters_and_searches(api_as, upload_certificate):
    for name, domain, days in (("b", "one.example", 50), ("a", "two.example", 10), ("c", "three.example", 90)):
        upload_certificate(issue_certificate((domain,), days=days), name=name)

    def names(query):
        return "".join(row["name"] for row in api_as("owner", "GET", f"/api/certificates?{query}").json["data"])

    assert (names(""), names("dir=asc")) == ("cab", "bac")
    assert (names("sort=name&dir=asc"), names("sort=name")) == ("abc", "cba")
    assert (names("sort=not_after&dir=asc"), names("sort=not_after")) == ("abc", "cba")
    assert (names("search=two.ex"), names("search=C"), names("search=%25")) == ("a", "c", "")
    assert (names("type=manual"), names("status=active&sort=name&dir=asc")) == ("cab", "bc")
    for wrong in ("status=nosuch", "type=nosuch", "sort=id", "dir=up", "per_page=101"):
        assert api_as("owner", "GET", f"/api/certificates?{wrong}").status_code == 422


def test_certificate_list_query_count_is_constant(api_as, upload_certificate, queries):
    upload_certificate(issue_certificate())

    def count_queries():
        queries.clear()
        assert api_as("owner", "GET", "/api/certificates").status_code == 200
        return len(queries)

    before = count_queries()
    for _ in range(4):
        upload_certificate(issue_certificate())
    assert count_queries() == before


def test_certificate_rename_and_replacement(api_as, chain, upload_certificate):
    row = upload_certificate(chain.leaf, chain.issuing)
    path = CERTIFICATE_PATH.format(row["id"])
    assert api_as("owner", "PATCH", path, json={"name": "Shop"}).json["certificate"]["name"] == "Shop"
    new = issue_certificate(("new.example.com",), days=200)
    answer = api_as("owner", "PATCH", path, json=new.body())
    changed = answer.json["certificate"]
    assert (changed["id"], changed["name"], changed["domains"]) == (row["id"], "Shop", ["new.example.com"])
    assert (changed["chain"], changed["days_left"]) == (None, 199)
    assert changed["fingerprint"] != row["fingerprint"]
    assert session.get(Certificate, row["id"]).private_key == new.key_pem


@pytest.mark.parametrize("left_out", ["certificate", "private_key", "both"])
def test_incomplete_certificate_replacement_is_refused(api_as, chain, upload_certificate, left_out):
    row = upload_certificate(chain.leaf, chain.issuing)
    body = {
        name: value
        for name, value in issue_certificate().body(chain.issuing).items()
        if left_out != name and not (left_out == "both" and name != "chain")
    }
    answer = api_as("owner", "PATCH", CERTIFICATE_PATH.format(row["id"]), json=body)
    missing = {"certificate", "private_key"} if left_out == "both" else {left_out}
    assert (answer.status_code, answer.json["errors"].keys()) == (422, missing)
    assert api_as("owner", "GET", CERTIFICATE_PATH.format(row["id"])).json["certificate"] == row


def test_read_only_certificate_fields_are_refused(api_as, chain, upload_certificate):
    row = upload_certificate(chain.leaf)
    for name in ("type", "domains", "status", "not_after"):
        answer = api_as("owner", "PATCH", CERTIFICATE_PATH.format(row["id"]), json={name: "x"})
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {name})


def test_certificate_deletion_removes_row_and_key(api_as, chain, upload_certificate):
    row = upload_certificate(chain.leaf)
    assert api_as("owner", "DELETE", CERTIFICATE_PATH.format(row["id"])).status_code == 200
    assert session.get(Certificate, row["id"]) is None
    for method in ("GET", "PATCH", "DELETE"):
        assert api_as("owner", method, CERTIFICATE_PATH.format(row["id"]), json={"name": "n"}).status_code == 404


def test_certificates_are_accessible_only_to_team(api_as, chain, upload_certificate):
    row = upload_certificate(chain.leaf)
    assert [certificate["id"] for certificate in api_as("viewer", "GET", "/api/certificates").json["data"]] == [
        row["id"]
    ]
    assert api_as("member", "PATCH", CERTIFICATE_PATH.format(row["id"]), json={"name": "n"}).status_code == 200
    assert api_as("outsider", "GET", "/api/certificates").json["data"] == []
    for method in ("GET", "PATCH", "DELETE"):
        assert api_as("outsider", method, CERTIFICATE_PATH.format(row["id"]), json={"name": "n"}).status_code == 404
