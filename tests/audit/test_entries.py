"""The content of audit entries. tests/support/audit_assertions.py checks their number for every request."""

import pytest
from sqlalchemy import select

from panel.core.db import db, session
from panel.models import Account, AuditEntry, SshKey
from panel.services import accounts, audit, ssh_keys, tokens
from panel.services.audit.change_tracking import LABEL_ATTRIBUTES
from panel.web import audit_view
from tests.support.operations import all_operations, fill_path, find_token  # noqa: F401  (fixtures)

READ_METHODS = ("GET", "HEAD")
SSH_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGgbnbmZ6xbRCBS8XZzsxqW8bIJAdBsKvwKOdyGpP2mq"


def load_entries():
    return session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()


def load_last_entry():
    return load_entries()[-1]


def get_values(entry, *names):
    return tuple(getattr(entry, name) for name in names)


def test_owner_token_entry_records_person_token_and_object(api_as, cast):
    ssh_key = api_as("owner", "POST", "/api/ssh-keys", json={"name": "laptop", "public_key": SSH_PUBLIC_KEY}).json[
        "ssh_key"
    ]
    (entry,) = load_entries()
    assert get_values(entry, "person", "person_kind", "impersonator") == ("owner@example.com", "owner", None)
    assert get_values(entry, "account_id", "person_id") == (cast.owner.id, cast.owner.id)
    assert get_values(entry, "token_id", "token_name") == (find_token(cast, "owner").id, "test")
    assert get_values(entry, "ip", "action") == ("127.0.0.1", "user.ssh_key.create")
    assert get_values(entry, "object_type", "object_id", "object_name") == ("ssh_key", ssh_key["id"], "laptop")
    assert entry.changes == {"did": "made"}


def test_member_token_entry_belongs_to_owner_account(api_as, cast):
    api_as("member", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"})
    assert get_values(load_last_entry(), "person", "person_kind") == ("member@example.com", "member")
    assert get_values(load_last_entry(), "account_id", "person_id") == (cast.owner.id, cast.member.id)


def test_impersonation_entry_names_customer_and_operator(api_as, cast):
    cast.tokens["support"] = tokens.issue(
        "impersonation", name="call 17", account=cast.owner, scopes=["ssh_keys:write"], issued_by="admin@example.com"
    )[1]
    session.commit()
    api_as("support", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"})
    assert get_values(load_last_entry(), "person", "person_kind", "impersonator") == (
        "owner@example.com",
        "owner",
        "admin@example.com",
    )
    assert get_values(load_last_entry(), "account_id", "token_name") == (cast.owner.id, "call 17")


def test_admin_token_entry_belongs_to_customer_account(api_as, cast):
    instance = cast.instance(display_name="Shop")
    api_as("admin", "PATCH", f"/api/v1/instance/{instance.id}", json={"notes": "a secret thing"})
    assert get_values(load_last_entry(), "person", "person_kind", "token_name") == ("test", "admin_token", "test")
    assert get_values(load_last_entry(), "account_id", "person_id") == (cast.owner.id, None)
    assert get_values(load_last_entry(), "object_type", "object_id", "object_name") == ("instance", instance.id, "Shop")
    assert load_last_entry().changes == {"did": "changed", "fields": ["notes"]}
    assert "secret thing" not in str([vars(entry) for entry in load_entries()])


def test_billing_token_writes_audit_entry(api_as, cast):
    body = {"external_id": "17", "email": "new@example.com", "password": "a long test password"}
    assert api_as("billing", "POST", "/api/v1/billing/users", json=body).status_code < 300
    account = session.scalar(select(Account).where(Account.email == "new@example.com"))
    assert get_values(load_last_entry(), "person_kind", "action") == ("billing_token", "billing.user.create")
    assert get_values(load_last_entry(), "object_type", "object_id", "account_id") == (
        "account",
        account.id,
        account.id,
    )


def test_page_entries_record_operator_customer_and_member(browser_as, cast):
    browser_as("admin").post(f"/admin/plans/{cast.plan.id}/off")
    assert get_values(load_last_entry(), "person", "person_kind", "account_id") == (
        "admin@example.com",
        "operator",
        None,
    )
    assert get_values(load_last_entry(), "action", "object_type", "object_name") == (
        "admin_plans.turn_off",
        "plan",
        "S",
    )
    assert load_last_entry().changes["fields"] == ["enabled"]
    browser_as("owner").post("/profile", data={"timezone": "Asia/Tokyo"})
    assert get_values(load_last_entry(), "person_kind", "token_id", "ip") == ("owner", None, "127.0.0.1")
    assert get_values(load_last_entry(), "action", "object_name") == ("profile.update", "owner@example.com")
    browser_as("member").post("/profile", data={"timezone": "Asia/Tokyo"})
    assert get_values(load_last_entry(), "person_kind", "account_id", "object_id") == (
        "member",
        cast.owner.id,
        cast.member.id,
    )


def test_entry_names_enqueued_task(api_as, cast):
    instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    assert get_values(load_last_entry(), "object_type", "object_id") == ("instance", instance.id)
    assert load_last_entry().changes["task"] == "instance_deploy"
    assert cast.image.id not in str(load_last_entry().changes)


def test_request_without_changes_writes_entry(api_as, cast):
    key, _ = ssh_keys.generate(cast.owner, name="k", algorithm="ed25519")
    session.commit()
    api_as("owner", "PATCH", f"/api/ssh-key/{key.id}", json={"name": "k"})
    assert get_values(load_last_entry(), "action", "object_type", "object_id") == ("user.ssh_key.update", "key", key.id)
    assert load_last_entry().changes == {"did": "asked"}


def test_refused_requests_write_no_entries(api_as, browser_as, cast):
    foreign = cast.instance("outsider")
    for caller, method, path, status in (
        ("nobody", "POST", "/api/ssh-keys", 401),
        ("viewer", "POST", "/api/ssh-keys", 403),
        ("owner", "POST", "/api/ssh-keys", 422),
        ("owner", "DELETE", f"/api/cloud-service/instances/{foreign.id}", 404),
        ("admin", "POST", "/api/v1/instances", 422),
        ("owner", "POST", "/api/v1/instances", 403),
    ):
        assert api_as(caller, method, path).status_code == status, path
    assert browser_as("viewer").post("/ssh-keys/new").status_code == 403
    htmx = {"HX-Request": "true", "HX-Request-Type": "partial"}
    assert browser_as("owner").post("/ssh-keys/new", data={"name": ""}, headers=htmx).status_code == 200
    assert load_entries() == []


def test_failed_request_writes_neither_entry_nor_rows(api_as, monkeypatch):
    def crash(*_, **__):
        raise RuntimeError

    monkeypatch.setattr("panel.services.audit.write", crash)
    body = {"name": "k", "algorithm": "ed25519"}
    assert api_as("owner", "POST", "/api/ssh-key/generate", json=body).status_code == 500
    assert (load_entries(), session.scalars(select(SshKey)).all()) == ([], [])


@pytest.mark.parametrize("caller", ["owner", "member", "viewer", "admin", "billing", "nobody"])
def test_each_successful_operation_writes_one_entry(api_as, cast, all_operations, caller):
    """All operations of both OpenAPI documents, without bodies and with unknown ids."""
    for method, path, operation in all_operations["USER"] + all_operations["ADMIN"]:
        before = len(load_entries())
        answer = api_as(caller, method, fill_path(path))
        added = load_entries()[before:]
        assert len(added) == (answer.status_code < 400 and method not in READ_METHODS), (method, path)
        if added:
            assert added[0].action == operation["operationId"]
            assert added[0].person == {"admin": "test", "billing": "test"}.get(caller, f"{caller}@example.com")


def test_sign_in_and_sign_out_write_entries(browser_as, cast):
    browser = browser_as()
    browser.post("/sign-in", data={"email": "owner@example.com", "password": "a long test password"})
    assert get_values(load_last_entry(), "action", "person", "person_kind") == (
        "sign_in.start",
        "owner@example.com",
        "owner",
    )
    assert get_values(load_last_entry(), "object_type", "object_id") == ("account", cast.owner.id)
    browser.post("/sign-out")
    session.expire_all()
    assert get_values(load_last_entry(), "action", "person") == ("sign_in.leave", "owner@example.com")
    assert len(load_entries()) == 2


def test_rows_that_are_rolled_back_have_no_audit_entry(rolled_back_app, cast):
    audit.start_tracking()
    savepoint = session.begin_nested()
    accounts.create(email="gone@example.com", password="a long test password")
    savepoint.rollback()
    with session.begin_nested():
        account = accounts.create(email="kept@example.com", password="a long test password")
    entry = audit.write(person="x", person_kind="nobody", ip="192.0.2.1", action="x")
    assert get_values(entry, "object_id", "object_name") == (account.id, "kept@example.com")
    assert entry.also == []


def test_additional_objects_are_limited(rolled_back_app, cast):
    audit.start_tracking()
    for number in range(210):
        session.add(SshKey(account_id=cast.owner.id, name=f"key {number}", public_key="x", fingerprint=str(number)))
    entry = audit.write(person="x", person_kind="nobody", ip="192.0.2.1", action="x")
    assert entry.object_name == "key 0"
    assert entry.also[:2] == ["ssh key key 1", "ssh key key 2"]
    assert len(entry.also) == 200


def test_customer_entry_omits_objects_of_others(rolled_back_app, cast):
    audit.start_tracking()
    cast.node.max_tasks, cast.owner.first_name, cast.outsider.first_name = 7, "A", "B"
    entry = audit.write(account_id=cast.owner.id, person="x", person_kind="owner", ip="192.0.2.1", action="x")
    assert get_values(entry, "object_id", "also") == (cast.owner.id, [])


def test_entry_object_is_taken_from_path(rolled_back_app, cast):
    audit.start_tracking()
    cast.owner.first_name, cast.viewer.first_name, cast.plan.position = "A", "B", 7
    resource_ids = {"plan_id": cast.plan.id, "account_id": cast.viewer.id}
    entry = audit.write(address_ids=resource_ids, person="x", person_kind="nobody", ip="192.0.2.1", action="x")
    assert get_values(entry, "object_id", "account_id") == (cast.viewer.id, cast.viewer.id)


def test_worker_changes_are_not_tracked(rolled_back_app, cast):
    session.info.pop("touched", None)
    cast.owner.first_name = "A"
    session.flush()
    assert "touched" not in session.info


UNNAMED_OBJECTS = {
    *("AcmeAccount", "AcmeChallenge", "Forge", "GuestInfo", "IdempotencyKey", "InstanceMetric", "IpSetEntry"),
    *("MediaDownload", "MicrovmPool", "MicrovmSettings", "Migration", "Rescue", "Task", "WebhookDelivery"),
}
"""Tables whose rows have no name; entries show their id."""


def test_tables_have_audit_label_or_are_audit_part():
    models = {mapper.class_ for mapper in db.Model.registry.mappers if not mapper.class_.is_audit_part}
    named = {model for model in models if any(hasattr(model, attribute) for attribute in LABEL_ATTRIBUTES)}
    assert {model.__name__ for model in models - named} == UNNAMED_OBJECTS


@pytest.mark.parametrize(
    ("action", "label"),
    [
        ("instances.push_keys", "Add SSH keys"),
        ("admin_instances.push_keys", "Add SSH keys"),
        ("user.instance.push_ssh_keys", "Add SSH keys"),
        ("admin.impersonation.start", "Start acting as the customer"),
        ("panel.token.admin", "Create admin token"),
        ("volumes.create", None),
        ("user.nothing.known", None),
    ],
)
def test_action_label_is_declared_at_view(app, action, label):
    with app.app_context():
        assert audit_view.find_label(action) == label


def test_action_label_is_same_in_both_areas(app):
    views = app.view_functions
    for endpoint, view in views.items():
        twin = views.get(f"admin_{endpoint}")
        if twin and "POST" in {method for rule in app.url_map.iter_rules(endpoint) for method in rule.methods}:
            assert getattr(twin, "audit_label", None) == getattr(view, "audit_label", None), endpoint
