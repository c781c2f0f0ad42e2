"""Webhook subscriptions by the API: created, listed, changed and deleted."""

import uuid
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import CLUSTER_RESOURCE, EVENT_KINDS, INSTANCE_RESOURCE
from tests.support.cast import UNKNOWN_ID
from tests.webhooks.api.subscriptions import (
    SUBSCRIPTION_BODY,
    SUBSCRIPTIONS_PATH,
    WEBHOOK_SECRET,
    add_finished_delivery,
    build_subscription_path,
)

pytestmark = pytest.mark.usefixtures("unlimited_rates")

SUBSCRIPTION_FIELDS = {
    "id",
    "name",
    "url",
    "event_kinds",
    "cluster_filter",
    "enabled",
    "consecutive_failures",
    "last_delivery_status",
}


def test_webhook_event_kinds_are_listed(api_as):
    """WHK-01, WHK-02, WHK-03"""
    answer = api_as("owner", "GET", "/api/webhook-event-kinds")
    assert (answer.status_code, answer.json["success"]) == (200, True)
    rows = answer.json["data"]
    assert all(row.keys() == {"kind", "resource", "description"} and row["description"].strip() for row in rows)
    kinds_by_resource = {
        resource: {row["kind"] for row in rows if row["resource"] == resource}
        for resource in (CLUSTER_RESOURCE, INSTANCE_RESOURCE)
    }
    assert kinds_by_resource[INSTANCE_RESOURCE] == {
        f"instance.{name}"
        for name in ("created", "deployed", "status_changed", "suspended", "unsuspended", "reinstalled", "deleted")
    }
    pools = ("created", "created.scale_failed", "updated", "deleted", "default_reassigned", "deletion_max_attempts")
    admin_actions = ("force_destroy", "force_evict_node", "suspend_toggle", "reset_state", "cancel_task")
    assert kinds_by_resource[CLUSTER_RESOURCE] == {
        *(f"cluster.{name}" for name in ("created", "deleted", "updated", "autoscaling_updated")),
        *(f"pool.{name}" for name in pools),
        *(f"admin.{name}" for name in admin_actions),
        "cert.renewed",
    }
    assert (len(rows), len(kinds_by_resource[CLUSTER_RESOURCE]), len(kinds_by_resource[INSTANCE_RESOURCE])) == (
        23,
        16,
        7,
    )


def test_webhook_subscription_is_created(api_as):
    """WHK-04, WHK-05, WHK-06, WHK-31, WHK-35, WHK-37, WHK-38 (before any delivery)"""
    answer = api_as("owner", "POST", SUBSCRIPTIONS_PATH, json=SUBSCRIPTION_BODY)
    subscription = answer.json["webhook_subscription"]
    assert (answer.status_code, answer.json["success"]) == (201, True)
    assert subscription.keys() == SUBSCRIPTION_FIELDS
    assert str(uuid.UUID(subscription.pop("id")))
    assert subscription == {
        "name": "Inventory",
        "url": "https://1.1.1.1/hook",
        "event_kinds": ["instance.created"],
        "cluster_filter": None,
        "enabled": True,
        "consecutive_failures": 0,
        "last_delivery_status": None,
    }


def test_secret_is_in_no_answer_and_encrypted_in_database(api_as, create_subscription):
    """WHK-07, WHK-08"""
    subscription = create_subscription()
    path = build_subscription_path(subscription["id"])
    add_finished_delivery(subscription["id"])
    answers = [
        api_as("owner", "POST", SUBSCRIPTIONS_PATH, json=SUBSCRIPTION_BODY),
        api_as("owner", "GET", SUBSCRIPTIONS_PATH),
        api_as("owner", "GET", path),
        api_as("owner", "PATCH", path, json={"secret": WEBHOOK_SECRET + "2"}),
        api_as("owner", "GET", f"{path}/deliveries"),
        api_as("owner", "POST", f"{path}/test"),
    ]
    for answer in answers:
        assert answer.status_code < 300
        assert WEBHOOK_SECRET not in answer.text
        assert "secret" not in answer.text
    stored_secrets = session.connection().exec_driver_sql("select secret from webhook_subscriptions").scalars().all()
    assert len(stored_secrets) == 2
    assert not any(WEBHOOK_SECRET in text for text in stored_secrets)
    assert session.get(WebhookSubscription, subscription["id"]).secret == WEBHOOK_SECRET + "2"


def test_subscription_may_have_all_event_kinds(create_subscription):
    """WHK-29; a `*` beside exact kinds is kept (OP-07)"""
    assert create_subscription(event_kinds=["*"])["event_kinds"] == ["*"]
    assert create_subscription(event_kinds=["*", "pool.created"])["event_kinds"] == ["*", "pool.created"]
    assert create_subscription(event_kinds=list(EVENT_KINDS))["event_kinds"] == list(EVENT_KINDS)


def test_subscription_is_created_disabled(create_subscription, api_as):
    """WHK-36"""
    subscription = create_subscription(enabled=False)
    assert subscription["enabled"] is False
    assert (
        api_as("owner", "GET", build_subscription_path(subscription["id"])).json["webhook_subscription"] == subscription
    )


def test_webhook_subscriptions_are_listed_and_shown(create_subscription, api_as):
    """WHK-39, WHK-40, WHK-41"""
    subscription = [create_subscription(name=name) for name in ("a", "b")]
    rows = api_as("owner", "GET", SUBSCRIPTIONS_PATH).json
    assert (rows["total"], rows["data"]) == (2, subscription[::-1])
    assert (
        api_as("owner", "GET", build_subscription_path(subscription[0]["id"])).json["webhook_subscription"]
        == subscription[0]
    )
    assert api_as("owner", "GET", build_subscription_path(UNKNOWN_ID)).status_code == 404
    assert api_as("owner", "GET", f"{SUBSCRIPTIONS_PATH}/{subscription[0]['id']}").status_code == 404
    assert api_as("owner", "GET", f"{SUBSCRIPTIONS_PATH}?per_page=1&page=2").json["data"] == subscription[:1]
    assert api_as("owner", "GET", f"{SUBSCRIPTIONS_PATH}?per_page=101").status_code == 422


def test_patch_changes_only_given_fields(create_subscription, api_as):
    """WHK-42, WHK-44, WHK-45, WHK-48"""
    subscription = create_subscription()
    row = session.get(WebhookSubscription, subscription["id"])
    row.consecutive_failures = 3
    session.commit()
    changed = api_as("owner", "PATCH", build_subscription_path(subscription["id"]), json={"name": "new"}).json[
        "webhook_subscription"
    ]
    assert changed == {**subscription, "name": "new", "consecutive_failures": 3}
    assert session.get(WebhookSubscription, subscription["id"]).secret == WEBHOOK_SECRET
    api_as("owner", "PATCH", build_subscription_path(subscription["id"]), json={"secret": "another one of 16"})
    assert session.get(WebhookSubscription, subscription["id"]).secret == "another one of 16"
    changes = {"url": "https://1.1.1.1/b", "event_kinds": ["*"], "enabled": False, "cluster_filter": None}
    changed = api_as("owner", "PATCH", build_subscription_path(subscription["id"]), json=changes).json[
        "webhook_subscription"
    ]
    assert changed == {**subscription, **changes, "name": "new", "consecutive_failures": 3}
    assert (
        api_as("owner", "PATCH", build_subscription_path(subscription["id"]), json={}).json["webhook_subscription"]
        == changed
    )


def test_patch_is_validated_as_creation(create_subscription, get_field_error, api_as):
    """WHK-43"""
    subscription = create_subscription()
    invalid_values = {
        "name": "n" * 256,
        "url": "http://1.1.1.1/",
        "secret": "s" * 15,
        "event_kinds": [],
        "enabled": "true",
    }
    invalid_values |= {"cluster_filter": [UNKNOWN_ID]}
    for field, value in invalid_values.items():
        get_field_error(field, build_subscription_path(subscription["id"]), "PATCH", **{field: value})
        for null in () if field == "cluster_filter" else (None,):
            get_field_error(field, build_subscription_path(subscription["id"]), "PATCH", **{field: null})
    assert "Writable: name, url" in get_field_error(
        "consecutive_failures", build_subscription_path(subscription["id"]), "PATCH", consecutive_failures=0
    )
    assert (
        api_as("owner", "GET", build_subscription_path(subscription["id"])).json["webhook_subscription"] == subscription
    )


@pytest.mark.parametrize("enabled", [True, False])
def test_enabling_resets_consecutive_failures(create_subscription, api_as, enabled):
    """WHK-46, WHK-47"""
    subscription = create_subscription()
    row = session.get(WebhookSubscription, subscription["id"])
    row.enabled, row.consecutive_failures, row.disabled_at = enabled, 20, None if enabled else clock.now()
    session.commit()
    changed = api_as("owner", "PATCH", build_subscription_path(subscription["id"]), json={"enabled": True}).json[
        "webhook_subscription"
    ]
    assert (changed["enabled"], changed["consecutive_failures"]) == (True, 0)
    assert session.get(WebhookSubscription, subscription["id"]).disabled_at is None


def test_disabling_keeps_consecutive_failures(create_subscription, api_as):
    subscription = create_subscription()
    session.get(WebhookSubscription, subscription["id"]).consecutive_failures = 3
    session.commit()
    changed = api_as("owner", "PATCH", build_subscription_path(subscription["id"]), json={"enabled": False}).json[
        "webhook_subscription"
    ]
    assert (changed["enabled"], changed["consecutive_failures"]) == (False, 3)


def test_delete_removes_deliveries(create_subscription, api_as):
    """WHK-49, DLV-37 (nothing is left to be sent)."""
    subscription, other_subscription = create_subscription(), create_subscription()
    for target in (subscription, subscription, other_subscription):
        add_finished_delivery(target["id"], status="pending_retry", due_at=clock.now() + timedelta(seconds=60))
    assert api_as("owner", "DELETE", build_subscription_path(subscription["id"])).json["success"] is True
    assert api_as("owner", "GET", build_subscription_path(subscription["id"])).status_code == 404
    assert api_as("owner", "GET", build_subscription_path(subscription["id"], "deliveries")).status_code == 404
    assert session.scalars(select(WebhookDelivery.subscription_id)).all() == [other_subscription["id"]]
    assert api_as("owner", "DELETE", build_subscription_path(subscription["id"])).status_code == 404


def test_account_with_its_team_has_at_most_twenty_subscriptions(create_subscription, api_as, cast):
    """WHK-50, WHK-51, WHK-52"""
    for _ in range(19):
        create_subscription()
    by_member = create_subscription("member")
    for account in ("owner", "member"):
        answer = api_as(account, "POST", SUBSCRIPTIONS_PATH, json=SUBSCRIPTION_BODY)
        assert (answer.status_code, "at most 20" in answer.json["message"]) == (422, True)
    assert api_as("owner", "GET", SUBSCRIPTIONS_PATH).json["data"][0] == by_member
    assert session.get(WebhookSubscription, by_member["id"]).account_id == cast.owner.id
    create_subscription("outsider")
    api_as("owner", "DELETE", build_subscription_path(by_member["id"]))
    create_subscription()


def test_webhook_subscriptions_of_other_accounts_are_not_found(create_subscription, api_as):
    """WHK-53"""
    subscription = create_subscription()
    row = add_finished_delivery(subscription["id"])
    assert api_as("outsider", "GET", SUBSCRIPTIONS_PATH).json["total"] == 0
    for method, parts in (
        ("GET", ()),
        ("PATCH", ()),
        ("DELETE", ()),
        ("GET", ("deliveries",)),
        ("POST", ("test",)),
        ("POST", ("delivery", row.id, "redeliver")),
    ):
        foreign = api_as("outsider", method, build_subscription_path(subscription["id"], *parts), json={})
        unknown = api_as("outsider", method, build_subscription_path(UNKNOWN_ID, *parts), json={})
        assert (foreign.status_code, foreign.json) == (404, unknown.json), (method, parts)
    own = create_subscription("outsider")
    assert (
        api_as("outsider", "POST", build_subscription_path(own["id"], "delivery", row.id, "redeliver")).status_code
        == 404
    )
    assert (
        api_as("owner", "GET", build_subscription_path(subscription["id"])).json["webhook_subscription"] == subscription
    )


def test_webhook_list_query_count_is_constant(create_subscription, api_as, queries):
    subscription = create_subscription()
    add_finished_delivery(subscription["id"])

    def count_queries():
        counts = []
        for path in (SUBSCRIPTIONS_PATH, build_subscription_path(subscription["id"], "deliveries")):
            queries.clear()
            assert api_as("owner", "GET", path).status_code == 200
            counts.append(len(queries))
        return counts

    count_queries()  # the first request records the use of the token
    expected_counts = count_queries()
    for _ in range(5):
        add_finished_delivery(create_subscription()["id"])
        add_finished_delivery(subscription["id"])
    assert count_queries() == expected_counts
