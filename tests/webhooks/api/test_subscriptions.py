"""Webhook subscriptions, by the API: made, listed, changed, removed."""

import uuid
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import CLUSTER, INSTANCE, KINDS
from tests.webhooks.api.conftest import BODY, LIST, SECRET, UNKNOWN, delivered, item

pytestmark = pytest.mark.usefixtures("unlimited")

SHOWN = {
    "id",
    "name",
    "url",
    "event_kinds",
    "cluster_filter",
    "enabled",
    "consecutive_failures",
    "last_delivery_status",
}


def test_the_catalog(as_):
    """WHK-01, WHK-02, WHK-03"""
    answer = as_("owner", "GET", "/api/webhook-event-kinds")
    assert (answer.status_code, answer.json["success"]) == (200, True)
    rows = answer.json["data"]
    assert all(row.keys() == {"kind", "resource", "description"} and row["description"].strip() for row in rows)
    of = {resource: {row["kind"] for row in rows if row["resource"] == resource} for resource in (CLUSTER, INSTANCE)}
    assert of[INSTANCE] == {
        f"instance.{what}"
        for what in ("created", "deployed", "status_changed", "suspended", "unsuspended", "reinstalled", "deleted")
    }
    pools = ("created", "created.scale_failed", "updated", "deleted", "default_reassigned", "deletion_max_attempts")
    acts = ("force_destroy", "force_evict_node", "suspend_toggle", "reset_state", "cancel_task")
    assert of[CLUSTER] == {
        *(f"cluster.{what}" for what in ("created", "deleted", "updated", "autoscaling_updated")),
        *(f"pool.{what}" for what in pools),
        *(f"admin.{what}" for what in acts),
        "cert.renewed",
    }
    assert (len(rows), len(of[CLUSTER]), len(of[INSTANCE])) == (23, 16, 7)


def test_create(as_):
    """WHK-04, WHK-05, WHK-06, WHK-31, WHK-35, WHK-37, WHK-38 (before any delivery)"""
    answer = as_("owner", "POST", LIST, json=BODY)
    made = answer.json["webhook_subscription"]
    assert (answer.status_code, answer.json["success"]) == (201, True)
    assert made.keys() == SHOWN
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


def test_the_secret_is_in_no_answer_and_not_readable_in_the_database(as_, make):
    """WHK-07, WHK-08"""
    made = make()
    path = item(made["id"])
    delivered(made["id"])
    answers = [
        as_("owner", "POST", LIST, json=BODY),
        as_("owner", "GET", LIST),
        as_("owner", "GET", path),
        as_("owner", "PATCH", path, json={"secret": SECRET + "2"}),
        as_("owner", "GET", f"{path}/deliveries"),
        as_("owner", "POST", f"{path}/test"),
    ]
    for answer in answers:
        assert answer.status_code < 300
        assert SECRET not in answer.text
        assert "secret" not in answer.text
    kept = session.connection().exec_driver_sql("select secret from webhook_subscriptions").scalars().all()
    assert len(kept) == 2
    assert not any(SECRET in text for text in kept)
    assert session.get(WebhookSubscription, made["id"]).secret == SECRET + "2"


def test_everything_can_be_subscribed_to(make):
    """WHK-29; a `*` beside exact kinds is kept (OP-07)"""
    assert make(event_kinds=["*"])["event_kinds"] == ["*"]
    assert make(event_kinds=["*", "pool.created"])["event_kinds"] == ["*", "pool.created"]
    assert make(event_kinds=list(KINDS))["event_kinds"] == list(KINDS)


def test_one_that_is_off_from_the_start(make, as_):
    """WHK-36"""
    made = make(enabled=False)
    assert made["enabled"] is False
    assert as_("owner", "GET", item(made["id"])).json["webhook_subscription"] == made


def test_list_and_show(make, as_):
    """WHK-39, WHK-40, WHK-41"""
    made = [make(name=name) for name in ("a", "b")]
    rows = as_("owner", "GET", LIST).json
    assert (rows["total"], rows["data"]) == (2, made[::-1])
    assert as_("owner", "GET", item(made[0]["id"])).json["webhook_subscription"] == made[0]
    assert as_("owner", "GET", item(UNKNOWN)).status_code == 404
    assert as_("owner", "GET", f"{LIST}/{made[0]['id']}").status_code == 404
    assert as_("owner", "GET", f"{LIST}?per_page=1&page=2").json["data"] == made[:1]
    assert as_("owner", "GET", f"{LIST}?per_page=101").status_code == 422


def test_change_what_is_named_and_nothing_else(make, as_):
    """WHK-42, WHK-44, WHK-45, WHK-48"""
    made = make()
    row = session.get(WebhookSubscription, made["id"])
    row.consecutive_failures = 3
    session.commit()
    changed = as_("owner", "PATCH", item(made["id"]), json={"name": "new"}).json["webhook_subscription"]
    assert changed == {**made, "name": "new", "consecutive_failures": 3}
    assert session.get(WebhookSubscription, made["id"]).secret == SECRET
    as_("owner", "PATCH", item(made["id"]), json={"secret": "another one of 16"})
    assert session.get(WebhookSubscription, made["id"]).secret == "another one of 16"
    everything = {"url": "https://1.1.1.1/b", "event_kinds": ["*"], "enabled": False, "cluster_filter": None}
    changed = as_("owner", "PATCH", item(made["id"]), json=everything).json["webhook_subscription"]
    assert changed == {**made, **everything, "name": "new", "consecutive_failures": 3}
    assert as_("owner", "PATCH", item(made["id"]), json={}).json["webhook_subscription"] == changed


def test_changes_have_the_same_limits(make, refuse, as_):
    """WHK-43"""
    made = make()
    wrong = {"name": "n" * 256, "url": "http://1.1.1.1/", "secret": "s" * 15, "event_kinds": [], "enabled": "true"}
    wrong |= {"cluster_filter": [UNKNOWN]}
    for field, value in wrong.items():
        refuse(field, item(made["id"]), "PATCH", **{field: value})
        for nothing in () if field == "cluster_filter" else (None,):
            refuse(field, item(made["id"]), "PATCH", **{field: nothing})
    assert "Writable: name, url" in refuse("consecutive_failures", item(made["id"]), "PATCH", consecutive_failures=0)
    assert as_("owner", "GET", item(made["id"])).json["webhook_subscription"] == made


@pytest.mark.parametrize("enabled", [True, False])
def test_to_be_switched_on_forgets_failures(make, as_, enabled):
    """WHK-46, WHK-47"""
    made = make()
    row = session.get(WebhookSubscription, made["id"])
    row.enabled, row.consecutive_failures, row.disabled_at = enabled, 20, None if enabled else clock.now()
    session.commit()
    changed = as_("owner", "PATCH", item(made["id"]), json={"enabled": True}).json["webhook_subscription"]
    assert (changed["enabled"], changed["consecutive_failures"]) == (True, 0)
    assert session.get(WebhookSubscription, made["id"]).disabled_at is None


def test_to_be_switched_off_keeps_the_count(make, as_):
    made = make()
    session.get(WebhookSubscription, made["id"]).consecutive_failures = 3
    session.commit()
    changed = as_("owner", "PATCH", item(made["id"]), json={"enabled": False}).json["webhook_subscription"]
    assert (changed["enabled"], changed["consecutive_failures"]) == (False, 3)


def test_delete_takes_the_history_along(make, as_):
    """WHK-49, DLV-37 (nothing is left to be sent)"""
    made, other = make(), make()
    for subscription in (made, made, other):
        delivered(subscription["id"], status="pending_retry", due_at=clock.now() + timedelta(seconds=60))
    assert as_("owner", "DELETE", item(made["id"])).json["success"] is True
    assert as_("owner", "GET", item(made["id"])).status_code == 404
    assert as_("owner", "GET", item(made["id"], "deliveries")).status_code == 404
    assert session.scalars(select(WebhookDelivery.subscription_id)).all() == [other["id"]]
    assert as_("owner", "DELETE", item(made["id"])).status_code == 404


def test_an_account_has_twenty_whoever_of_its_team_made_them(make, as_, cast):
    """WHK-50, WHK-51, WHK-52"""
    for _ in range(19):
        make()
    by_member = make("member")
    for who in ("owner", "member"):
        answer = as_(who, "POST", LIST, json=BODY)
        assert (answer.status_code, "at most 20" in answer.json["message"]) == (422, True)
    assert as_("owner", "GET", LIST).json["data"][0] == by_member
    assert session.get(WebhookSubscription, by_member["id"]).account_id == cast.owner.id
    make("outsider")
    as_("owner", "DELETE", item(by_member["id"]))
    make()


def test_outsiders_find_nothing(make, as_):
    """WHK-53"""
    made = make()
    row = delivered(made["id"])
    assert as_("outsider", "GET", LIST).json["total"] == 0
    for method, rest in (
        ("GET", ()),
        ("PATCH", ()),
        ("DELETE", ()),
        ("GET", ("deliveries",)),
        ("POST", ("test",)),
        ("POST", ("delivery", row.id, "redeliver")),
    ):
        foreign = as_("outsider", method, item(made["id"], *rest), json={})
        unknown = as_("outsider", method, item(UNKNOWN, *rest), json={})
        assert (foreign.status_code, foreign.json) == (404, unknown.json), (method, rest)
    own = make("outsider")
    assert as_("outsider", "POST", item(own["id"], "delivery", row.id, "redeliver")).status_code == 404
    assert as_("owner", "GET", item(made["id"])).json["webhook_subscription"] == made


def test_lists_ask_the_database_as_often_for_many_rows(make, as_, queries):
    made = make()
    delivered(made["id"])

    def asked():
        seen = []
        for path in (LIST, item(made["id"], "deliveries")):
            queries.clear()
            assert as_("owner", "GET", path).status_code == 200
            seen.append(len(queries))
        return seen

    asked()  # the first request notes that the token is used
    few = asked()
    for _ in range(5):
        delivered(make()["id"])
        delivered(made["id"])
    assert asked() == few
