"""Who is written down with what. That every request leaves exactly one entry or none is looked at in all tests, by
tests/support/audit_assertions.py."""

import pytest
from sqlalchemy import select

from panel.core.db import db, session
from panel.models import Account, AuditEntry, SshKey
from panel.services import accounts, audit, ssh_keys, tokens
from panel.services.audit.change_tracking import PARTS
from tests.test_access import concrete, everything, token_of  # noqa: F401  (a fixture)

READING = ("GET", "HEAD")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGgbnbmZ6xbRCBS8XZzsxqW8bIJAdBsKvwKOdyGpP2mq"


def entries():
    return session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()


def last():
    return entries()[-1]


def facts(entry, *names):
    return tuple(getattr(entry, name) for name in names)


def test_the_owner_with_a_token(as_, cast):
    made = as_("owner", "POST", "/api/ssh-keys", json={"name": "laptop", "public_key": KEY}).json["ssh_key"]
    (entry,) = entries()
    assert facts(entry, "person", "person_kind", "impersonator") == ("owner@example.com", "owner", None)
    assert facts(entry, "account_id", "person_id") == (cast.owner.id, cast.owner.id)
    assert facts(entry, "token_id", "token_name") == (token_of(cast, "owner").id, "test")
    assert facts(entry, "ip", "action") == ("127.0.0.1", "user.ssh_key.create")
    assert facts(entry, "object_type", "object_id", "object_name") == ("ssh_key", made["id"], "laptop")
    assert entry.changes == {"did": "made"}


def test_a_member_with_a_token_stands_in_the_owner_s_trail(as_, cast):
    as_("member", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"})
    assert facts(last(), "person", "person_kind") == ("member@example.com", "member")
    assert facts(last(), "account_id", "person_id") == (cast.owner.id, cast.member.id)


def test_an_impersonation_names_both(as_, cast):
    cast.tokens["support"] = tokens.issue(
        "impersonation", name="call 17", account=cast.owner, scopes=["ssh_keys:write"], issued_by="admin@example.com"
    )[1]
    session.commit()
    as_("support", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"})
    assert facts(last(), "person", "person_kind", "impersonator") == ("owner@example.com", "owner", "admin@example.com")
    assert facts(last(), "account_id", "token_name") == (cast.owner.id, "call 17")


def test_an_admin_token_in_the_customer_s_trail(as_, cast):
    instance = cast.instance(display_name="Shop")
    as_("admin", "PATCH", f"/api/v1/instance/{instance.id}", json={"notes": "a secret thing"})
    assert facts(last(), "person", "person_kind", "token_name") == ("test", "admin_token", "test")
    assert facts(last(), "account_id", "person_id") == (cast.owner.id, None)
    assert facts(last(), "object_type", "object_id", "object_name") == ("instance", instance.id, "Shop")
    assert last().changes == {"did": "changed", "fields": ["notes"]}
    assert "secret thing" not in str([vars(entry) for entry in entries()])


def test_a_billing_token(as_, cast):
    body = {"external_id": "17", "email": "new@example.com", "password": "a long test password"}
    assert as_("billing", "POST", "/api/v1/billing/users", json=body).status_code < 300
    made = session.scalar(select(Account).where(Account.email == "new@example.com"))
    assert facts(last(), "person_kind", "action") == ("billing_token", "billing.user.create")
    assert facts(last(), "object_type", "object_id", "account_id") == ("account", made.id, made.id)


def test_an_operator_and_a_customer_at_their_pages(browse, cast):
    browse("admin").post(f"/admin/plans/{cast.plan.id}/off")
    assert facts(last(), "person", "person_kind", "account_id") == ("admin@example.com", "operator", None)
    assert facts(last(), "action", "object_type", "object_name") == ("admin_plans.turn_off", "plan", "S")
    assert last().changes["fields"] == ["enabled"]
    browse("owner").post("/profile", data={"timezone": "Asia/Tokyo"})
    assert facts(last(), "person_kind", "token_id", "ip") == ("owner", None, "127.0.0.1")
    assert facts(last(), "action", "object_name") == ("profile.update", "owner@example.com")
    browse("member").post("/profile", data={"timezone": "Asia/Tokyo"})
    assert facts(last(), "person_kind", "account_id", "object_id") == ("member", cast.owner.id, cast.member.id)


def test_work_that_is_asked_for_is_named(as_, cast):
    instance = cast.instance()
    as_("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    assert facts(last(), "object_type", "object_id") == ("instance", instance.id)
    assert last().changes["task"] == "instance_deploy"
    assert cast.image.id not in str(last().changes)


def test_a_write_that_changes_nothing_is_written_down_too(as_, cast):
    key, _ = ssh_keys.generate(cast.owner, name="k", algorithm="ed25519")
    session.commit()
    as_("owner", "PATCH", f"/api/ssh-key/{key.id}", json={"name": "k"})
    assert facts(last(), "action", "object_type", "object_id") == ("user.ssh_key.update", "key", key.id)
    assert last().changes == {"did": "asked"}


def test_what_is_refused_leaves_nothing(as_, browse, cast):
    foreign = cast.instance("outsider")
    for who, method, path, status in (
        ("nobody", "POST", "/api/ssh-keys", 401),
        ("viewer", "POST", "/api/ssh-keys", 403),
        ("owner", "POST", "/api/ssh-keys", 422),
        ("owner", "DELETE", f"/api/cloud-service/instances/{foreign.id}", 404),
        ("admin", "POST", "/api/v1/instances", 422),
        ("owner", "POST", "/api/v1/instances", 403),
    ):
        assert as_(who, method, path).status_code == status, path
    assert browse("viewer").post("/ssh-keys/new").status_code == 403
    htmx = {"HX-Request": "true", "HX-Request-Type": "partial"}
    assert browse("owner").post("/ssh-keys/new", data={"name": ""}, headers=htmx).status_code == 200
    assert entries() == []


def test_a_crash_leaves_nothing(as_, monkeypatch):
    def crash(*_, **__):
        raise RuntimeError

    monkeypatch.setattr("panel.services.audit.write", crash)
    body = {"name": "k", "algorithm": "ed25519"}
    assert as_("owner", "POST", "/api/ssh-key/generate", json=body).status_code == 500
    assert (entries(), session.scalars(select(SshKey)).all()) == ([], [])


@pytest.mark.parametrize("who", ["owner", "member", "viewer", "admin", "billing", "nobody"])
def test_every_operation_that_succeeds_leaves_one_entry_and_others_none(as_, cast, everything, who):  # noqa: F811
    """Of both documents, without bodies and with unknown ids. tests/support/audit_assertions.py looks at those that other tests ask."""
    for method, path, operation in everything["USER"] + everything["ADMIN"]:
        before = len(entries())
        answer = as_(who, method, concrete(path))
        added = entries()[before:]
        assert len(added) == (answer.status_code < 400 and method not in READING), (method, path)
        if added:
            assert added[0].action == operation["operationId"]
            assert added[0].person == {"admin": "test", "billing": "test"}.get(who, f"{who}@example.com")


def test_a_sign_in_and_its_end(browse, cast):
    browser = browse()
    browser.post("/sign-in", data={"email": "owner@example.com", "password": "a long test password"})
    assert facts(last(), "action", "person", "person_kind") == ("sign_in.start", "owner@example.com", "owner")
    assert facts(last(), "object_type", "object_id") == ("account", cast.owner.id)
    browser.post("/sign-out")
    session.expire_all()
    assert facts(last(), "action", "person") == ("sign_in.leave", "owner@example.com")
    assert len(entries()) == 2


def test_rows_that_are_rolled_back_are_not_told_of(world, cast):
    audit.follow()
    savepoint = session.begin_nested()
    accounts.create(email="gone@example.com", password="a long test password")
    savepoint.rollback()
    with session.begin_nested():
        kept = accounts.create(email="kept@example.com", password="a long test password")
    entry = audit.write(person="x", person_kind="nobody", ip="192.0.2.1", action="x")
    assert facts(entry, "object_id", "object_name") == (kept.id, "kept@example.com")
    assert entry.also == []


def test_further_objects_are_named_up_to_a_limit(world, cast):
    audit.follow()
    for number in range(210):
        session.add(SshKey(account_id=cast.owner.id, name=f"key {number}", public_key="x", fingerprint=str(number)))
    entry = audit.write(person="x", person_kind="nobody", ip="192.0.2.1", action="x")
    assert entry.object_name == "key 0"
    assert entry.also[:2] == ["ssh key key 1", "ssh key key 2"]
    assert len(entry.also) == 200


def test_a_customer_s_entry_names_nothing_that_is_not_the_customer_s(world, cast):
    audit.follow()
    cast.node.max_tasks, cast.owner.first_name, cast.outsider.first_name = 7, "A", "B"
    entry = audit.write(account_id=cast.owner.id, person="x", person_kind="owner", ip="192.0.2.1", action="x")
    assert facts(entry, "object_id", "also") == (cast.owner.id, [])


def test_the_object_is_the_one_in_the_address(world, cast):
    audit.follow()
    cast.owner.first_name, cast.viewer.first_name, cast.plan.position = "A", "B", 7
    about = {"plan_id": cast.plan.id, "account_id": cast.viewer.id}
    entry = audit.write(about=about, person="x", person_kind="nobody", ip="192.0.2.1", action="x")
    assert facts(entry, "object_id", "account_id") == (cast.viewer.id, cast.viewer.id)


def test_workers_are_not_followed(world, cast):
    session.info.pop("touched", None)
    cast.owner.first_name = "A"
    session.flush()
    assert "touched" not in session.info


def test_parts_are_tables(app):
    assert db.metadata.tables.keys() >= PARTS
