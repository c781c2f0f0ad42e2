"""Webhook subscriptions on the customers' API (specification 2.4, 4.6, 6.1, 8)."""

import ipaddress
import uuid
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from panel import clock
from panel.db import session
from panel.models import Event, Instance, WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import CLUSTER, INSTANCE, KINDS
from panel.services.webhooks import subscriptions, targets

SECRET = "correct horse battery"
BODY = {"name": "Inventory", "url": "https://1.1.1.1/hook", "secret": SECRET, "event_kinds": ["instance.created"]}
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
UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"
LIST = "/api/webhook-subscriptions"

pytestmark = pytest.mark.usefixtures("unlimited")


def item(subscription, *rest):
    return "/".join((f"/api/webhook-subscription/{subscription}", *rest))


@pytest.fixture
def make(as_):
    """A subscription of the owner, as the API shows it."""

    def made(who="owner", **facts):
        answer = as_(who, "POST", LIST, json={**BODY, **facts})
        assert answer.status_code == 201, answer.json
        return answer.json["webhook_subscription"]

    return made


@pytest.fixture
def refuse(as_):
    """Sends a body that must be refused; returns what is said of a field."""

    def refused(field, path=LIST, method="POST", **facts):
        body = {**(BODY if method == "POST" else {}), **facts}
        answer = as_("owner", method, path, json={name: value for name, value in body.items() if value is not ...})
        assert answer.status_code == 422, answer.json
        assert SECRET not in answer.text
        named = [name for name in answer.json["errors"] if name.partition(".")[0] == field]
        assert named, answer.json
        return answer.json["errors"][named[0]][0]

    return refused


def delivered(subscription, **facts):
    """A delivery that is over, of an event of its own."""
    row = session.get(WebhookSubscription, subscription)
    event = Event(
        account_id=row.account_id, kind="instance.created", resource_type=INSTANCE, resource_id=UNKNOWN, snapshot={}
    )
    session.add(event)
    session.flush()
    known = {"status": "delivered", "attempts": 1, "response_code": 204, "duration_ms": 84}
    made = WebhookDelivery(
        account_id=row.account_id, subscription=row, event=event, event_kind=event.kind, **{**known, **facts}
    )
    session.add(made)
    session.commit()
    return made


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


def test_what_is_required(refuse):
    """WHK-09, WHK-11, WHK-22, WHK-24, WHK-25"""
    for field in ("name", "url", "secret", "event_kinds"):
        assert refuse(field, **{field: ...}) == "Missing data for required field."
        refuse(field, **{field: None})
    for value in ("instance.created", "*", {}, 1, []):
        refuse("event_kinds", event_kinds=value)


def test_lengths(make, refuse):
    """WHK-10, WHK-13, WHK-23, WHK-26"""
    long = "https://1.1.1.1/" + "a" * (1024 - 16)
    assert make(name="n" * 255)["name"] == "n" * 255
    assert make(url=long)["url"] == long
    for length in (16, 255):
        make(secret="s" * length)
    assert make(event_kinds=["instance.created", *["pool.created"] * 49])["event_kinds"] == [
        "instance.created",
        "pool.created",
    ]
    refuse("name", name="n" * 256)
    refuse("name", name="")
    refuse("url", url=long + "a")
    for length in (15, 256):
        refuse("secret", secret="s" * length)
    refuse("event_kinds", event_kinds=["instance.created"] * 51)


BAD_URLS = [
    "http://1.1.1.1/",
    "ftp://1.1.1.1/",
    "//1.1.1.1/",
    "1.1.1.1",
    "https://",
    "https://127.0.0.1/",
    "https://127.1.2.3/",
    "https://localhost/",
    "https://localhost./",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://169.254.169.254/",
    "https://[fe80::1]/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.0.1/",
    "https://[fd00::1]/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://0/",
    "https://127.1/",
    "https://user@1.1.1.1/",
    "https://user:pass@1.1.1.1/",
    "https://0.0.0.0/",
    "https://[::]/",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_addresses_that_are_refused(make, refuse, as_, url):
    """WHK-12, WHK-14, WHK-15, WHK-16, WHK-17, WHK-19, WHK-20, and WHK-21: on PATCH, which keeps the old one."""
    assert refuse("url", url=url).endswith(".")
    path = item(make()["id"])
    refuse("url", path, "PATCH", url=url)
    assert as_("owner", "GET", path).json["webhook_subscription"]["url"] == BODY["url"]


def test_names_that_lead_inside_are_refused(refuse, monkeypatch, make):
    """WHK-18"""
    known = {
        "inside.example.com": ["1.1.1.1", "127.0.0.1"],
        "six.example.com": ["::1"],
        "good.example.com": ["1.1.1.1"],
    }
    monkeypatch.setattr(targets, "resolve", lambda name: [ipaddress.ip_address(each) for each in known[name]])
    assert "127.0.0.1" in refuse("url", url="https://inside.example.com/")
    assert "::1" in refuse("url", url="https://six.example.com/")
    assert make(url="https://good.example.com/")["url"] == "https://good.example.com/"


@pytest.mark.parametrize("kind", ["instance.exploded", "instance.*", "Instance.created", "", "**", "instance.created "])
def test_unknown_kinds_are_named_and_the_catalog_is_pointed_to(refuse, kind):
    """WHK-27, WHK-28"""
    message = refuse("event_kinds", event_kinds=["instance.created", kind])
    assert repr(kind) in message
    assert "GET /api/webhook-event-kinds" in message


def test_everything_can_be_subscribed_to(make):
    """WHK-29; a `*` beside exact kinds is kept (OP-07)"""
    assert make(event_kinds=["*"])["event_kinds"] == ["*"]
    assert make(event_kinds=["*", "pool.created"])["event_kinds"] == ["*", "pool.created"]
    assert make(event_kinds=list(KINDS))["event_kinds"] == list(KINDS)


def test_clusters(make, refuse, monkeypatch):
    """WHK-31, WHK-32, WHK-33, WHK-34"""
    ids = [str(uuid.uuid4()) for _ in range(101)]
    assert "no such cluster" in refuse("cluster_filter", cluster_filter=[ids[0]])
    assert make(cluster_filter=[])["cluster_filter"] is None
    assert make(cluster_filter=None)["cluster_filter"] is None
    refuse("cluster_filter", cluster_filter=["abc"])
    refuse("cluster_filter", cluster_filter=ids[0])
    monkeypatch.setattr(subscriptions, "clusters", lambda access: set(ids[:100]))
    assert make(cluster_filter=ids[:100])["cluster_filter"] == ids[:100]
    made = make(cluster_filter=[ids[1], ids[1].upper()])
    assert made["cluster_filter"] == [ids[1]]
    assert "Longer than maximum length 100" in refuse("cluster_filter", cluster_filter=ids)
    assert ids[100] in refuse("cluster_filter", item(made["id"]), "PATCH", cluster_filter=[ids[100]])


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


NO_OBJECTS = [b"{", b"[]", b'[{"name": "x"}]', b"1", b"null", b"", b'"text"', b"true", b"\xff", b'{"a": NaN}', b"a=b"]


@pytest.mark.parametrize("body", NO_OBJECTS)
def test_bodies_that_are_no_objects(as_, make, body):
    """WHK-54; a PATCH of nothing changes nothing"""
    answer = as_("owner", "POST", LIST, data=body, content_type="application/json")
    assert (answer.status_code, answer.json["success"]) == (422, False)
    answer = as_("owner", "PATCH", item(make()["id"]), data=body, content_type="application/json")
    assert answer.status_code == (200 if body in (b"", b"null") else 422)


@pytest.mark.parametrize("field", [*BODY, "cluster_filter", "enabled"])
def test_values_of_wrong_types(refuse, field):
    """WHK-54"""
    for value in (1, 1.5, {"a": 1}, [[1]], [{}], [None], True if field != "enabled" else "yes", "\x00" * 20):
        if isinstance(value, str) and field == "event_kinds":
            continue
        refuse(field, **{field: value})
    assert session.scalar(select(func.count()).select_from(WebhookSubscription)) == 0


def test_unknown_fields_are_named(refuse):
    refuse("consecutive_failures", consecutive_failures=0)


def test_deliveries(make, as_):
    """WHK-55, DLV-39, DLV-40"""
    made = make()
    rows = [
        delivered(made["id"]),
        delivered(made["id"], status="pending_retry", response_code=None, error="Nobody answered.", attempts=2),
        delivered(made["id"], status="failed_permanent", response_code=500, attempts=5),
        delivered(made["id"], status="pending", response_code=None, duration_ms=None, attempts=0),
    ]
    answer = as_("owner", "GET", item(made["id"], "deliveries")).json
    assert answer["total"] == 4
    assert [row["id"] for row in answer["data"]] == [row.id for row in rows[::-1]]
    assert answer["data"][-1] == {
        "id": rows[0].id,
        "event_id": rows[0].event_id,
        "event_kind": "instance.created",
        "status": "delivered",
        "attempts": 1,
        "response_code": 204,
        "duration_ms": 84,
        "error": None,
        "test": False,
        "created_at": answer["data"][-1]["created_at"],
    }
    assert [row["response_code"] for row in answer["data"]] == [None, 500, None, 204]
    assert answer["data"][2]["error"] == "Nobody answered."
    assert len(as_("owner", "GET", item(made["id"], "deliveries?per_page=2&page=2")).json["data"]) == 2


def test_a_test_is_made_up_and_in_no_history(make, as_):
    made = make(enabled=False)
    before = session.scalar(select(func.count()).select_from(Event))
    answer = as_("owner", "POST", item(made["id"], "test"), json={"kind": "pool.created.scale_failed"})
    assert answer.status_code == 202
    row = answer.json["delivery"]
    assert (row["status"], row["test"], row["event_id"], row["attempts"]) == ("pending", True, None, 0)
    assert row["event_kind"] == "pool.created.scale_failed"
    assert as_("owner", "POST", item(made["id"], "test")).json["delivery"]["event_kind"] == "instance.created"
    assert session.scalar(select(func.count()).select_from(Event)) == before
    for kind in ("*", "nosuch", None, 1, ["instance.created"]):
        assert as_("owner", "POST", item(made["id"], "test"), json={"kind": kind}).status_code == 422


def test_send_again(make, as_):
    made = make()
    row = delivered(made["id"], status="failed_permanent", attempts=5)
    path = item(made["id"], "delivery", row.id, "redeliver")
    answer = as_("owner", "POST", path)
    again = answer.json["delivery"]
    assert (answer.status_code, again["id"], again["status"], again["attempts"]) == (202, row.id, "pending", 0)
    assert session.get(WebhookDelivery, row.id).due_at <= clock.now()
    assert (as_("owner", "POST", path).status_code, as_("owner", "POST", path).json["message"]) == (
        409,
        "It is still under way.",
    )
    session.get(WebhookDelivery, row.id).status = "delivered"
    as_("owner", "PATCH", item(made["id"]), json={"enabled": False})
    refused = as_("owner", "POST", path)
    assert (refused.status_code, refused.json["message"]) == (409, "The subscription is off. Enable it first.")
    assert as_("owner", "POST", item(make()["id"], "delivery", row.id, "redeliver")).status_code == 404


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


def test_a_real_instance_reaches_a_subscription_of_its_account_only(make, as_, cast, work):
    """WHK-89, from the order to the delivery that waits"""
    mine, others = make(event_kinds=["*"]), make("outsider", event_kinds=["*"])
    instance = cast.instance()
    work()
    assert session.get(Instance, instance.id)
    rows = as_("owner", "GET", item(mine["id"], "deliveries")).json["data"]
    assert [(row["event_kind"], row["status"]) for row in rows] == [("instance.created", "pending")]
    assert as_("outsider", "GET", item(others["id"], "deliveries")).json["total"] == 0
