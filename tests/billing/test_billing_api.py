"""The billing API: provisioning, orders, suspension, termination, credit and sign-in links."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, Instance, Mail, Storage, Subnet, Task
from panel.services import instances
from tests.support.cast import PASSWORD
from tests.support.operations import find_operations
from worker.tasks import usage

BILLING_PATH = "/api/v1/billing"


@pytest.fixture
def billing_api(api_as):
    def call(method, path, caller="billing", **options):
        return api_as(caller, method, BILLING_PATH + path, **options)

    return call


@pytest.fixture
def provisioned_user(billing_api):
    """Provision a user and return its data."""
    return billing_api(
        "POST", "/users", json={"external_id": "c-1", "email": "New@Example.com", "password": PASSWORD}
    ).json["data"]


@pytest.fixture
def order_body(cast, provisioned_user):
    return {"user_id": provisioned_user["id"], "location_id": cast.location.id, "plan_id": cast.plan.id}


def find_sso_path(url):
    return re.search(r"/sso/[\w-]{43}$", url)[0]


def fill_path(path):
    return re.sub(r"{\w+}", "0199c0a8-0000-7000-8000-000000000000", path)


def test_billing_token_opens_billing_operations_only(app, api_as, billing_api, unlimited_rates):
    """BIL-13, OP-17, IDT-20."""
    answer = billing_api("GET", "/auth")
    assert (answer.status_code, answer.json) == (200, {"success": True, "message": "The token is valid."})
    assert answer.headers["X-Api-Envelope"] == "v1"
    billing, others = [], []
    for surface in ("ADMIN", "USER"):
        for method, path, operation in find_operations(app, surface):
            (billing if operation["x-permission"] == "billing_token" else others).append((method, path))
    assert len(billing) > 20
    for method, path in billing:
        for caller in ("admin", "owner"):
            refused = api_as(caller, method, fill_path(path))
            assert (refused.status_code, refused.json["message"]) == (403, "Unauthorized"), path
        assert api_as("nobody", method, fill_path(path)).status_code == 403
    for method, path in others:
        assert api_as("billing", method, fill_path(path)).status_code in (401, 403), path


def test_repeated_provisioning_returns_same_user(billing_api, provisioned_user):
    """BIL-03"""
    assert (provisioned_user["email"], provisioned_user["external_id"], provisioned_user["balance"]) == (
        "new@example.com",
        "c-1",
        0,
    )
    again = billing_api("POST", "/users", json={"external_id": "c-1", "email": "other@example.com"})
    assert again.json["data"]["id"] == provisioned_user["id"]
    assert again.json["data"]["email"] == "new@example.com"
    disabled_subnet = billing_api("POST", "/users", json={"external_id": "c-2", "email": "new@example.com"})
    assert (disabled_subnet.status_code, list(disabled_subnet.json["errors"])) == (422, ["email"])


def test_provisioned_user_can_sign_in(browser_as, provisioned_user):
    """BIL-03"""
    browser = browser_as()
    assert (
        browser.post("/sign-in", data={"email": provisioned_user["email"], "password": PASSWORD}).headers["Location"]
        == "/"
    )
    assert provisioned_user["email"] in browser.get("/").text


def test_provisioning_without_password_mails_a_link(billing_api):
    billing_api("POST", "/users", json={"external_id": "c-3", "email": "third@example.com"})
    assert session.scalar(select(Mail.template).where(Mail.recipient == "third@example.com")) == "password_reset"


def test_users_are_found_changed_and_deleted(billing_api, cast, provisioned_user):
    for query in ("external_id=c-1", "email=NEW@example.com", "email=new@example.com&external_id=c-1"):
        assert [row["id"] for row in billing_api("GET", f"/users?{query}").json["data"]] == [provisioned_user["id"]]
    assert billing_api("GET", "/users?external_id=c-9").json["data"] == []
    user = f"/user/{provisioned_user['id']}"
    changed = billing_api(
        "PATCH", user, json={"external_id": "c-7", "email": "New.Name@example.com", "first_name": "N"}
    )
    assert changed.json["data"]["email"] == "new.name@example.com"
    assert billing_api("PATCH", user, json={"email": "owner@example.com"}).status_code == 422
    assert billing_api("PATCH", user, json={"operator_role": "full"}).status_code == 422
    billing_api("PATCH", f"/user/{cast.owner.id}", json={"external_id": "c-8"})
    assert list(billing_api("PATCH", user, json={"external_id": "c-8"}).json["errors"]) == ["external_id"]
    cast.instance("owner")
    refused = billing_api("DELETE", f"/user/{cast.owner.id}")
    assert (refused.status_code, refused.json["reason"]) == (409, "owns_resources")
    assert billing_api("DELETE", user).status_code == 200
    assert billing_api("GET", user).status_code == 404


def test_billing_api_hides_operators(billing_api, cast):
    cast.admin.external_id = "op"
    session.commit()
    for method, tail in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/suspend"), ("POST", "/sso")):
        assert billing_api(method, f"/user/{cast.admin.id}{tail}").status_code == 404, tail
    assert billing_api("GET", "/users?email=admin@example.com").json["data"] == []
    assert billing_api("POST", "/users", json={"external_id": "op", "email": "x@example.com"}).status_code == 422
    assert billing_api("PATCH", f"/user/{cast.owner.id}", json={"external_id": "op"}).status_code == 422
    foreign_instance = cast.instance("admin")
    assert billing_api("POST", f"/instance/{foreign_instance.id}/sso").status_code == 404


def test_suspended_user_has_read_access_only(api_as, billing_api, cast, browser_as):
    user = f"/user/{cast.owner.id}"
    answer = billing_api("POST", f"{user}/suspend", json={"reason": "The invoice is overdue."}).json["data"]
    assert answer["suspended_at"]
    assert answer["suspended_reason"] == "The invoice is overdue."
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    assert api_as("owner", "POST", "/api/cloud-service/instances", json=body).status_code == 403
    assert api_as("owner", "GET", "/api/instances").status_code == 200
    assert billing_api("POST", f"{user}/unsuspend").json["data"]["suspended_at"] is None
    assert api_as("owner", "POST", "/api/cloud-service/instances", json=body).status_code == 200


def test_instance_is_ordered_for_a_user(billing_api, api_as, order_body, provisioned_user, cast, run_tasks):
    """BIL-01: without an image the order creates only the row."""
    answer = billing_api("POST", "/instances", json=order_body)
    assert answer.status_code == 200
    data = answer.json["data"]
    assert (data["task_id"], data["password"]) == (None, None)
    instance = billing_api("GET", f"/instance/{data['instance_id']}").json["data"]
    assert (instance["account_id"], instance["state"], instance["billing_mode"]) == (
        provisioned_user["id"],
        "pending",
        "external",
    )
    listed = api_as("admin", "GET", f"/api/v1/instances/user/{provisioned_user['id']}").json["data"]
    assert [row["id"] for row in listed] == [data["instance_id"]]


def test_instance_is_ordered_and_deployed_in_one_request(billing_api, order_body, cast, run_tasks):
    data = billing_api("POST", "/instances", json={**order_body, "image_id": cast.image.id, "hostname": "shop"}).json[
        "data"
    ]
    assert len(data["password"]) >= 12
    assert session.get(Task, data["task_id"]).kind == "instance_deploy"
    run_tasks()
    assert billing_api("GET", f"/instance/{data['instance_id']}").json["data"]["state"] == "running"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"user_id": "nobody"}, "user_id"),
        ({"location_id": "nowhere"}, "location_id"),
        ({"plan_id": "none"}, "plan_id"),
        ({"image_id": "none"}, "image_id"),
        ({"password": "x" * 12}, "image_id"),
        ({"ssh_keys": ["none"]}, "image_id"),
        ({"hostname": "-"}, "hostname"),
        ({"billing_mode": "free"}, "billing_mode"),
    ],
)
def test_invalid_order_creates_no_instance(billing_api, order_body, change, field):
    answer = billing_api("POST", "/instances", json={**order_body, **change})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert session.scalar(select(Instance.id)) is None


def test_capacity_reason_is_at_top_level(billing_api, order_body):
    """BIL-02, BIL-14"""
    session.scalar(select(Storage)).enabled = False
    session.commit()
    answer = billing_api("POST", "/instances", json=order_body)
    assert (answer.status_code, answer.json["success"]) == (422, False)
    assert answer.json["reason"] == "storage_not_sufficient"


@pytest.mark.parametrize(
    ("reason", "plan", "disabled_subnet"),
    [
        ("storage_not_sufficient", {"storage": 10**6}, None),
        ("ipv4_not_available", {}, "v4"),
        ("ipv6_not_available", {}, "v6"),
        ("ipv6_subnet_not_available", {"ipv6_prefixes": 1}, None),
        ("private_ipv4_not_available", {"private_ipv4": 1}, None),
    ],
)
def test_order_without_capacity_names_the_reason(billing_api, api_as, cast, order_body, reason, plan, disabled_subnet):
    """BIL-02: each reason is at top level on every surface that creates instances, and no instance is created."""
    for name, value in plan.items():
        setattr(cast.plan, name, value)
    for subnet in session.scalars(select(Subnet).where(Subnet.name == disabled_subnet)):
        subnet.enabled = False
    session.commit()
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    for answer in (
        billing_api("POST", "/instances", json=order_body),
        api_as("admin", "POST", "/api/v1/instances", json={**body, "user_id": cast.owner.id}),
        api_as("owner", "POST", "/api/cloud-service/instances", json=body),
        api_as("owner", "POST", "/api/self-provisioning/instances", json=body),
    ):
        assert (answer.status_code, answer.json["success"], answer.json["reason"]) == (422, False, reason), answer.text
    assert session.scalar(select(Instance.id)) is None


def test_instance_is_suspended_and_unsuspended(billing_api, api_as, cast, run_tasks, node):
    """BIL-04"""
    instance = cast.instance("owner")
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    address = f"/instance/{instance.id}"
    assert billing_api("POST", f"{address}/suspend").json["data"]["task_id"]
    assert api_as("owner", "GET", f"/api{address}").json["state"] == "suspended"
    run_tasks()
    assert node.power(instance.id) == "off"
    assert billing_api("POST", f"{address}/suspend").json["data"] == {"task_id": None}
    refused = api_as("owner", "POST", f"/api{address}/power/start")
    assert (refused.status_code, refused.json["reason"]) == (409, "suspended")
    assert billing_api("POST", f"{address}/unsuspend").json["data"]["task_id"]
    run_tasks()
    assert api_as("owner", "GET", f"/api{address}").json["state"] == "running"
    assert node.power(instance.id) == "on"
    assert billing_api("POST", f"{address}/power/stop").json["data"]["task_id"]


def test_instance_is_terminated(billing_api, api_as, cast, run_tasks):
    """BIL-05, BIL-08: `delete_backups` is a boolean, false by default, and an argument of the task."""
    first, second = cast.instance(), cast.instance()
    for wrong in (0, "true", None, []):
        answer = billing_api("POST", f"/instance/{first.id}/terminate", json={"delete_backups": wrong})
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["delete_backups"])
    task = billing_api("POST", f"/instance/{first.id}/terminate").json["data"]["task_id"]
    assert session.get(Task, task).arguments == {"delete_backups": False}
    task = billing_api("POST", f"/instance/{second.id}/terminate", json={"delete_backups": True}).json["data"][
        "task_id"
    ]
    assert session.get(Task, task).arguments == {"delete_backups": True}
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{first.id}").status_code == 404
    assert billing_api("GET", f"/instance/{second.id}").status_code == 404


def test_protected_instance_is_not_terminated(billing_api, api_as, cast):
    """INS-21, OP-21"""
    instance = cast.instance(protection_enabled=True)
    answer = billing_api("POST", f"/instance/{instance.id}/terminate")
    assert (answer.status_code, answer.json["reason"]) == (409, "protection_enabled")


def test_credit_is_granted_once_for_a_key(billing_api, cast):
    """BIL-06"""
    address = f"/user/{cast.owner.id}"
    key = {"Idempotency-Key": "invoice-7"}
    for _ in range(2):
        answer = billing_api("POST", f"{address}/credits", json={"amount": 12.34, "reference": "INV-7"}, headers=key)
        assert (answer.json["data"]["amount"], answer.json["data"]["balance_after"]) == (12.34, 12.34)
    assert billing_api("POST", f"{address}/credits", json={"amount": 1}, headers=key).status_code == 422
    assert billing_api("GET", address).json["data"]["balance"] == 12.34


def test_usage_report_of_month_lists_external_instances(billing_api, set_clock, billing_enabled, cast, order_body):
    """Usage of instances that the billing system sold is recorded with charge 0."""
    start = clock.now().replace(year=2026, month=3, day=2, hour=5)
    set_clock(start)
    billing_api("POST", "/instances", json=order_body)
    set_clock(start + timedelta(hours=30))
    usage.meter_and_post()
    report = billing_api("GET", f"/user/{order_body['user_id']}/usage?month=2026-03").json["data"]
    totals = {"month": "2026-03", "currency": "EUR", "resources": 1, "hours": 30, "charge": 0, "balance": 0}
    assert report["totals"] == totals
    assert report["resources"][0]["billing_mode"] == "external"
    assert report["resources"][0]["price"] == 4
    assert billing_api("GET", f"/user/{order_body['user_id']}/usage?month=2026-02").json["data"]["resources"] == []
    for wrong in ("2026-13", "now", "2026-3", "2026-03-01"):
        assert billing_api("GET", f"/user/{order_body['user_id']}/usage?month={wrong}").status_code == 422


def test_billing_catalog_lists_locations_and_plans(billing_api, cast):
    assert [row["id"] for row in billing_api("GET", "/locations").json["data"]] == [cast.location.id]
    assert [row["price"] for row in billing_api("GET", "/plans").json["data"]] == [4]
    assert [row["id"] for row in billing_api("GET", "/images").json["data"]] == [cast.image.id]
    cast.image.public = cast.plan.enabled = False
    session.commit()
    assert (billing_api("GET", "/plans").json["data"], billing_api("GET", "/images").json["data"]) == ([], [])


def test_sso_link_signs_in_once(billing_api, browser_as, cast):
    """BIL-07: only POST uses the link up, because mail programs and scanners open links with GET."""
    link = billing_api("POST", f"/user/{cast.owner.id}/sso").json["data"]
    assert link["url"].startswith("http://localhost:8000/sso/")
    path = find_sso_path(link["url"])
    browser = browser_as()
    assert browser.head(path).status_code == 200
    for _ in range(2):
        page = browser.get(path)
        assert page.status_code == 200
        assert "owner@example.com" in page.text
        assert page.headers["Referrer-Policy"] == "same-origin"
        assert page.headers["Cache-Control"] == "no-store"
    assert "/sign-in" in browser.get("/").headers["Location"]
    entered = browser.post(path)
    assert (entered.status_code, entered.headers["Location"]) == (303, "/")
    assert "owner@example.com" in browser.get("/profile").text
    for again in (browser_as().get(path), browser_as().post(path)):
        assert again.status_code == 404
        assert "was used" in again.text


def test_instance_sso_link_redirects_to_instance(billing_api, browser_as, cast):
    instance = cast.instance()
    path = find_sso_path(
        billing_api("POST", f"/instance/{instance.id}/sso", json={"expires_in": 600}).json["data"]["url"]
    )
    assert browser_as().post(path).headers["Location"] == f"/instances/{instance.id}"


def test_sso_link_expires(billing_api, browser_as, cast, set_clock):
    for wrong in (59, 601, "60", True):
        assert billing_api("POST", f"/user/{cast.owner.id}/sso", json={"expires_in": wrong}).status_code == 422
    path = find_sso_path(billing_api("POST", f"/user/{cast.owner.id}/sso", json={"expires_in": 60}).json["data"]["url"])
    set_clock(clock.now() + timedelta(seconds=61))
    assert browser_as().get(path).status_code == 404
    assert browser_as().post(path).status_code == 404


def test_sso_link_requires_second_factor(billing_api, browser_as, cast):
    cast.owner.two_factor_at, cast.owner.totp_secret = clock.now(), "JBSWY3DPEHPK3PXP"
    session.commit()
    browser = browser_as()
    entered = browser.post(find_sso_path(billing_api("POST", f"/user/{cast.owner.id}/sso").json["data"]["url"]))
    assert entered.headers["Location"].startswith("/sign-in/second-step")
    assert "/sign-in" in browser.get("/profile").headers["Location"]


def test_sso_link_of_new_operator_is_refused(billing_api, browser_as, cast):
    path = find_sso_path(billing_api("POST", f"/user/{cast.outsider.id}/sso").json["data"]["url"])
    session.get(Account, cast.outsider.id).operator_role = "full"
    session.commit()
    assert browser_as().post(path).status_code == 404


MALFORMED_BODIES = (
    b"[]",
    b"{",
    b'"x"',
    b'{"user_id": {}, "location_id": [], "plan_id": 1, "image_id": true, "hostname": {}}',
    b'{"amount": [], "kind": {}, "reference": 5, "description": null}',
    b'{"amount": 1e999}',
    b'{"amount": "\xc2\xb2"}',
    b'{"external_id": "\\u0000", "email": "a@example.com"}',
    b'{"expires_in": 1.5, "delete_backups": "false", "reason": []}',
    b'{"\xff": 1}',
)


def test_malformed_billing_requests_are_refused(app, billing_api, api_as):
    """BIL-14: the answer to a malformed request is a 4xx with the envelope."""
    for method, path, operation in find_operations(app, "ADMIN"):
        if operation["x-permission"] != "billing_token":
            continue
        for path_id in ("%00", "x" * 300, "%C3%A4", "0199c0a8-0000-7000-8000-000000000000"):
            if "{" in path:
                answer = api_as("billing", method, re.sub(r"{\w+}", path_id, path), json={})
                assert answer.status_code in (404, 422), (path, path_id)
                assert answer.json["success"] is False
        for body in MALFORMED_BODIES:
            if "requestBody" in operation:
                answer = api_as("billing", method, re.sub(r"{\w+}", "x", path), data=body)
                assert answer.status_code in (400, 404, 422), (path, body)
                assert answer.json["success"] is False
