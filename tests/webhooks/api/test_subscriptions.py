"""Webhook subscriptions, by the API: made, listed, changed, removed."""

import uuid
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import CLUSTER_RESOURCE, EVENT_KINDS, INSTANCE_RESOURCE
from tests.webhooks.api.conftest import (
    SUBSCRIPTION_BODY,
    SUBSCRIPTIONS_PATH,
    UNKNOWN_ID,
    WEBHOOK_SECRET,
    add_finished_delivery,
    item_path,
)

pytestmark = pytest.mark.usefixtures("unlimited")

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
    of = {
        resource: {row["kind"] for row in rows if row["resource"] == resource}
        for resource in (CLUSTER_RESOURCE, INSTANCE_RESOURCE)
    }
    assert of[INSTANCE_RESOURCE] == {
        f"instance.{what}"
        for what in ("created", "deployed", "status_changed", "suspended", "unsuspended", "reinstalled", "deleted")
    }
    pools = ("created", "created.scale_failed", "updated", "deleted", "default_reassigned", "deletion_max_attempts")
    acts = ("force_destroy", "force_evict_node", "suspend_toggle", "reset_state", "cancel_task")
    assert of[CLUSTER_RESOURCE] == {
        *(f"cluster.{what}" for what in ("created", "deleted", "updated", "autoscaling_updated")),
        *(f"pool.{what}" for what in pools),
        *(f"admin.{what}" for what in acts),
        "cert.renewed",
    }
    assert (len(rows), len(of[CLUSTER_RESOURCE]), len(of[INSTANCE_RESOURCE])) == (23, 16, 7)


def test_webhook_subscription_is_created(api_as):
    """WHK-04, WHK-05, WHK-06, WHK-31, WHK-35, WHK-37, WHK-38 (before any delivery)"""
    answer = api_as("owner", "POST", SUBSCRIPTIONS_PATH, json=SUBSCRIPTION_BODY)
    made = answer.json["webhook_subscription"]
    assert (answer.status_code, answer.json["success"]) == (201, True)
    assert made.keys() == SUBSCRIPTION_FIELDS
    assert str(uuid.UUID(made.pop("id")))
    assert made == {
        "name": "Inventory",
        "url": "https://1.1.1.1/hook",
        "event_kinds": ["instance.created"],
        "cluster_filter": None,
        "enabled": True,
        "consecutive_failures": 0,
        "last_delivery_status": None,
    }


def test_the_secret_is_in_no_answer_and_not_readable_in_the_database(api_as, create_subscription):
    """WHK-07, WHK-08"""
    made = create_subscription()
    path = item_path(made["id"])
    add_finished_delivery(made["id"])
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
    kept = session.connection().exec_driver_sql("select secret from webhook_subscriptions").scalars().all()
    assert len(kept) == 2
    assert not any(WEBHOOK_SECRET in text for text in kept)
    assert session.get(WebhookSubscription, made["id"]).secret == WEBHOOK_SECRET + "2"


def test_everything_can_be_subscribed_to(create_subscription):
    """WHK-29; a `*` beside exact kinds is kept (OP-07)"""
    assert create_subscription(event_kinds=["*"])["event_kinds"] == ["*"]
    assert create_subscription(event_kinds=["*", "pool.created"])["event_kinds"] == ["*", "pool.created"]
    assert create_subscription(event_kinds=list(EVENT_KINDS))["event_kinds"] == list(EVENT_KINDS)


def test_one_that_is_off_from_the_start(create_subscription, api_as):
    """WHK-36"""
    made = create_subscription(enabled=False)
    assert made["enabled"] is False
    assert api_as("owner", "GET", item_path(made["id"])).json["webhook_subscription"] == made


def test_list_and_show(create_subscription, api_as):
    """WHK-39, WHK-40, WHK-41"""
    made = [create_subscription(name=name) for name in ("a", "b")]
    rows = api_as("owner", "GET", SUBSCRIPTIONS_PATH).json
    assert (rows["total"], rows["data"]) == (2, made[::-1])
    assert api_as("owner", "GET", item_path(made[0]["id"])).json["webhook_subscription"] == made[0]
    assert api_as("owner", "GET", item_path(UNKNOWN_ID)).status_code == 404
    assert api_as("owner", "GET", f"{SUBSCRIPTIONS_PATH}/{made[0]['id']}").status_code == 404
    assert api_as("owner", "GET", f"{SUBSCRIPTIONS_PATH}?per_page=1&page=2").json["data"] == made[:1]
    assert api_as("owner", "GET", f"{SUBSCRIPTIONS_PATH}?per_page=101").status_code == 422


def test_change_what_is_named_and_nothing_else(create_subscription, api_as):
    """WHK-42, WHK-44, WHK-45, WHK-48"""
    made = create_subscription()
    row = session.get(WebhookSubscription, made["id"])
    row.consecutive_failures = 3
    session.commit()
    changed = api_as("owner", "PATCH", item_path(made["id"]), json={"name": "new"}).json["webhook_subscription"]
    assert changed == {**made, "name": "new", "consecutive_failures": 3}
    assert session.get(WebhookSubscription, made["id"]).secret == WEBHOOK_SECRET
    api_as("owner", "PATCH", item_path(made["id"]), json={"secret": "another one of 16"})
    assert session.get(WebhookSubscription, made["id"]).secret == "another one of 16"
    everything = {"url": "https://1.1.1.1/b", "event_kinds": ["*"], "enabled": False, "cluster_filter": None}
    changed = api_as("owner", "PATCH", item_path(made["id"]), json=everything).json["webhook_subscription"]
    assert changed == {**made, **everything, "name": "new", "consecutive_failures": 3}
    assert api_as("owner", "PATCH", item_path(made["id"]), json={}).json["webhook_subscription"] == changed


def test_changes_have_the_same_limits(create_subscription, refused_field, api_as):
    """WHK-43"""
    made = create_subscription()
    wrong = {"name": "n" * 256, "url": "http://1.1.1.1/", "secret": "s" * 15, "event_kinds": [], "enabled": "true"}
    wrong |= {"cluster_filter": [UNKNOWN_ID]}
    for field, value in wrong.items():
        refused_field(field, item_path(made["id"]), "PATCH", **{field: value})
        for nothing in () if field == "cluster_filter" else (None,):
            refused_field(field, item_path(made["id"]), "PATCH", **{field: nothing})
    assert "Writable: name, url" in refused_field(
        "consecutive_failures", item_path(made["id"]), "PATCH", consecutive_failures=0
    )
    assert api_as("owner", "GET", item_path(made["id"])).json["webhook_subscription"] == made


@pytest.mark.parametrize("enabled", [True, False])
def test_to_be_switched_on_forgets_failures(create_subscription, api_as, enabled):
    """WHK-46, WHK-47"""
    made = create_subscription()
    row = session.get(WebhookSubscription, made["id"])
    row.enabled, row.consecutive_failures, row.disabled_at = enabled, 20, None if enabled else clock.now()
    session.commit()
    changed = api_as("owner", "PATCH", item_path(made["id"]), json={"enabled": True}).json["webhook_subscription"]
    assert (changed["enabled"], changed["consecutive_failures"]) == (True, 0)
    assert session.get(WebhookSubscription, made["id"]).disabled_at is None


def test_to_be_switched_off_keeps_the_count(create_subscription, api_as):
    made = create_subscription()
    session.get(WebhookSubscription, made["id"]).consecutive_failures = 3
    session.commit()
    changed = api_as("owner", "PATCH", item_path(made["id"]), json={"enabled": False}).json["webhook_subscription"]
    assert (changed["enabled"], changed["consecutive_failures"]) == (False, 3)


def test_delete_takes_the_history_along(create_subscription, api_as):
    """WHK-49, DLV-37 (nothing is left to be sent)"""
    made, other = create_subscription(), create_subscription()
    for subscription in (made, made, other):
        add_finished_delivery(subscription["id"], status="pending_retry", due_at=clock.now() + timedelta(seconds=60))
    assert api_as("owner", "DELETE", item_path(made["id"])).json["success"] is True
    assert api_as("owner", "GET", item_path(made["id"])).status_code == 404
    assert api_as("owner", "GET", item_path(made["id"], "deliveries")).status_code == 404
    assert session.scalars(select(WebhookDelivery.subscription_id)).all() == [other["id"]]
    assert api_as("owner", "DELETE", item_path(made["id"])).status_code == 404


def test_an_account_has_twenty_whoever_of_its_team_made_them(create_subscription, api_as, cast):
    """WHK-50, WHK-51, WHK-52"""
    for _ in range(19):
        create_subscription()
    by_member = create_subscription("member")
    for who in ("owner", "member"):
        answer = api_as(who, "POST", SUBSCRIPTIONS_PATH, json=SUBSCRIPTION_BODY)
        assert (answer.status_code, "at most 20" in answer.json["message"]) == (422, True)
    assert api_as("owner", "GET", SUBSCRIPTIONS_PATH).json["data"][0] == by_member
    assert session.get(WebhookSubscription, by_member["id"]).account_id == cast.owner.id
    create_subscription("outsider")
    api_as("owner", "DELETE", item_path(by_member["id"]))
    create_subscription()


def test_outsiders_find_nothing(create_subscription, api_as):
    """WHK-53"""
    made = create_subscription()
    row = add_finished_delivery(made["id"])
    assert api_as("outsider", "GET", SUBSCRIPTIONS_PATH).json["total"] == 0
    for method, rest in (
        ("GET", ()),
        ("PATCH", ()),
        ("DELETE", ()),
        ("GET", ("deliveries",)),
        ("POST", ("test",)),
        ("POST", ("delivery", row.id, "redeliver")),
    ):
        foreign = api_as("outsider", method, item_path(made["id"], *rest), json={})
        unknown = api_as("outsider", method, item_path(UNKNOWN_ID, *rest), json={})
        assert (foreign.status_code, foreign.json) == (404, unknown.json), (method, rest)
    own = create_subscription("outsider")
    assert api_as("outsider", "POST", item_path(own["id"], "delivery", row.id, "redeliver")).status_code == 404
    assert api_as("owner", "GET", item_path(made["id"])).json["webhook_subscription"] == made


def test_lists_ask_the_database_as_often_for_many_rows(create_subscription, api_as, queries):
    made = create_subscription()
    add_finished_delivery(made["id"])

    def asked():
        seen = []
        for path in (SUBSCRIPTIONS_PATH, item_path(made["id"], "deliveries")):
            queries.clear()
            assert api_as("owner", "GET", path).status_code == 200
            seen.append(len(queries))
        return seen

    asked()  # the first request notes that the token is used
    few = asked()
    for _ in range(5):
        add_finished_delivery(create_subscription()["id"])
        add_finished_delivery(made["id"])
    assert asked() == few
