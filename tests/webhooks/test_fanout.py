"""Fan-out: which events are delivered, to which subscriptions, and when."""

import json
import re
from datetime import datetime, timedelta

import pytest
from sqlalchemy import delete, func, insert, select, update

from panel.core import clock, events
from panel.core.db import generate_id, session
from panel.models import Event, Instance, WebhookDelivery
from panel.schemas.webhooks import EVENT_KINDS
from panel.services import instances
from panel.services.instances import state_reports
from panel.services.webhooks import fanout
from tests.support.task_queue import queued_calls
from tests.webhooks.fake_cluster import FakeCluster
from worker import webhooks
from worker.engine import purge

INSTANCE_EVENT_KINDS = [kind for kind, row in EVENT_KINDS.items() if row.resource == "instance"]
CLUSTER_EVENT_KINDS = [kind for kind, row in EVENT_KINDS.items() if row.resource == "kubernetes_cluster"]


@pytest.fixture
def received_bodies(receiver, run_deliveries):
    """Return a function that returns the bodies received since its last call, oldest first."""

    def read_bodies():
        run_deliveries()
        bodies = [json.loads(post.body) for post in receiver.posts]
        receiver.posts.clear()
        return bodies

    return read_bodies


@pytest.fixture
def deploy(cast, run_tasks):
    def deploy_instance(instance):
        instance.deployed = False  # the event of a second deploy depends only on earlier events
        instances.deploy(instance, image_id=cast.image.id, actor="test")
        session.commit()
        run_tasks()
        return instance

    return deploy_instance


def list_event_kinds(bodies):
    return [body["event"]["kind"] for body in bodies]


# --- events of instances


def test_instance_events_have_documented_payloads(cast, subscribe, received_bodies, deploy, run_tasks, api_as):
    """WHK-29 WHK-56 WHK-57 WHK-58 WHK-61 WHK-62 WHK-65 DLV-13 DLV-14 DLV-15 DLV-16 DLV-17."""
    subscribe()
    instance = cast.instance(display_name="Shop", hostname="shop.example.com")
    expected = {
        "id": instance.id,
        "name": instance.name,
        "hostname": "shop.example.com",
        "display_name": "Shop",
        "status": "stopped",
        "location": {"id": cast.location.id, "name": "Laboratory"},
    }
    [body] = received_bodies()
    assert set(body) == {"event", "instance"}
    assert set(body["event"]) == {"id", "kind", "created_at", "data"}
    assert re.fullmatch(r"[0-9a-f-]{36}", body["event"]["id"])
    assert abs(datetime.fromisoformat(body["event"]["created_at"]) - clock.now()) < timedelta(minutes=5)
    assert (body["event"]["kind"], body["event"]["data"], body["instance"]) == ("instance.created", {}, expected)
    deploy(instance)
    [body] = received_bodies()
    assert (body["event"]["kind"], body["event"]["data"]) == ("instance.deployed", {})
    assert body["instance"] == {**expected, "status": "running"}
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["status"] == 1
    for action, data in (
        ("poweroff", {"status": "stopped", "previous": "running"}),
        ("start", {"status": "running", "previous": "stopped"}),
    ):
        api_as("owner", "POST", f"/api/instance/{instance.id}/power/{action}")
        run_tasks()
        [body] = received_bodies()
        assert (body["event"]["kind"], body["event"]["data"]) == ("instance.status_changed", data)
        assert body["instance"]["status"] == data["status"]
    deploy(instance)
    reinstalled = received_bodies()[-1]
    assert (reinstalled["event"]["kind"], reinstalled["event"]["data"]) == ("instance.reinstalled", {})
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    run_tasks()
    deleted = received_bodies()[-1]
    assert (deleted["event"]["kind"], deleted["event"]["data"]) == ("instance.deleted", {})
    assert deleted["instance"] | {"status": "stopped"} == expected
    assert session.get(Instance, instance.id) is None


@pytest.mark.parametrize("reason", ["user", "admin", "network"])
def test_suspension_events_name_their_reason(cast, subscribe, received_bodies, deploy, run_tasks, reason):
    """WHK-59 WHK-60."""
    instance = deploy(cast.instance())
    subscribe(event_kinds=["instance.suspended", "instance.unsuspended"])
    instances.suspend(instance, reason=reason, actor="test")
    session.commit()
    run_tasks()
    instances.unsuspend(instance, actor="test")
    session.commit()
    run_tasks()
    bodies = received_bodies()
    assert list_event_kinds(bodies) == ["instance.suspended", "instance.unsuspended"]
    assert [body["event"]["data"] for body in bodies] == [{"reason": reason}] * 2


def test_suspension_by_operator_has_reason_admin(cast, subscribe, received_bodies, deploy, api_as):
    """WHK-59 WHK-60, by the admin API."""
    instance = deploy(cast.instance())
    subscribe(event_kinds=["instance.suspended", "instance.unsuspended"])
    for action in ("suspend", "resume"):
        api_as("admin", "POST", f"/api/v1/instance/{instance.id}/state/{action}")
    assert [body["event"]["data"] for body in received_bodies()] == [{"reason": "admin"}] * 2


def test_deploy_event_becomes_reinstalled_within_a_week(cast, subscribe, received_bodies, deploy, advance_clock):
    """WHK-61 WHK-63 WHK-64."""
    subscribe(event_kinds=["instance.deployed", "instance.reinstalled"])
    instance = deploy(cast.instance())
    advance_clock(days=6)
    deploy(instance)
    assert list_event_kinds(received_bodies()) == ["instance.deployed", "instance.reinstalled"]
    advance_clock(days=8)
    deploy(instance)
    assert list_event_kinds(received_bodies()) == ["instance.deployed"]
    session.execute(delete(Event))
    session.commit()
    deploy(instance)
    assert list_event_kinds(received_bodies()) == ["instance.deployed"]
    deploy(instance)
    assert list_event_kinds(received_bodies()) == ["instance.reinstalled"]


# --- events of clusters


@pytest.mark.parametrize("kind", CLUSTER_EVENT_KINDS)
def test_cluster_events_have_documented_payloads(cast, subscribe, received_bodies, emit_cluster_event, kind):
    """WHK-66 WHK-67 WHK-68 WHK-69 WHK-70 WHK-71 WHK-72 WHK-73 WHK-74 WHK-75 WHK-76 WHK-77 WHK-78 WHK-79 WHK-80 WHK-81
    DLV-13 DLV-14 DLV-18 DLV-19."""
    subscribe(event_kinds=[kind])
    event = emit_cluster_event(
        kind, FakeCluster(cast.owner), severity="warning", message="Look!", pool_id="p", name="Pool"
    )
    for other_kind in EVENT_KINDS:
        if other_kind != kind and EVENT_KINDS[other_kind].resource == "kubernetes_cluster":
            emit_cluster_event(other_kind)
    [body] = received_bodies()
    assert set(body) == {"event", "cluster"}
    assert body["cluster"] == {"id": "11111111-1111-4111-8111-111111111111", "name": "Prod", "slug": "prod"}
    assert set(body["event"]) == {"id", "kind", "severity", "message", "data", "created_at"}
    assert (body["event"]["id"], body["event"]["kind"]) == (event.id, kind)
    assert (body["event"]["severity"], body["event"]["message"]) == ("warning", "Look!")
    assert body["event"]["data"] == {"pool_id": "p", "name": "Pool"}


# --- selection of subscriptions


def test_event_kinds_match_exactly(subscribe, received_bodies, emit_cluster_event):
    """WHK-30."""
    subscribe(event_kinds=["pool.created"])
    emit_cluster_event("pool.created.scale_failed")
    assert received_bodies() == []
    emit_cluster_event("pool.created")
    assert list_event_kinds(received_bodies()) == ["pool.created"]


def test_fanout_wildcard_delivers_once(cast, subscribe, received_bodies, emit_cluster_event):
    """WHK-29."""
    subscribe(event_kinds=["*", "instance.created"])
    cast.instance()
    emit_cluster_event("cert.renewed")
    assert sorted(list_event_kinds(received_bodies())) == ["cert.renewed", "instance.created"]


@pytest.mark.parametrize("kind", ["cluster.updated", "pool.deleted", "admin.reset_state", "cert.renewed"])
def test_fanout_respects_cluster_filter(cast, subscribe, received_bodies, emit_cluster_event, kind):
    """WHK-82 WHK-83."""
    selected, other = FakeCluster(cast.owner, id=generate_id()), FakeCluster(cast.owner, id=generate_id())
    subscribe(cluster_filter=[selected.id])
    emit_cluster_event(kind, selected)
    emit_cluster_event(kind, other)
    cast.instance()
    bodies = received_bodies()
    assert [body["cluster"]["id"] for body in bodies if "cluster" in body] == [selected.id]
    assert list_event_kinds(bodies).count("instance.created") == 1


def test_subscription_gets_only_events_of_its_account(cast, subscribe, received_bodies, deliveries):
    """WHK-89."""
    other_subscription, own_subscription = subscribe("outsider"), subscribe()
    cast.instance()
    received_bodies()
    assert deliveries(other_subscription) == []
    cast.instance("outsider")
    received_bodies()
    assert len(deliveries(other_subscription)) == len(deliveries(own_subscription)) == 1


def test_disabled_subscription_gets_no_delivery(cast, subscribe, received_bodies, deliveries):
    """WHK-36 DLV-36."""
    disabled = subscribe(enabled=False)
    cast.instance()
    disabled.enabled = True
    session.commit()
    assert received_bodies() == []
    subscribe(enabled=False)
    cast.instance()
    received_bodies()
    assert len(deliveries()) == 1


def test_subscription_gets_no_earlier_events(cast, subscribe, received_bodies):
    subscribe("owner", event_kinds=["instance.deleted"])
    cast.instance()
    subscribe()
    assert received_bodies() == []


def test_fanout_without_subscribers_marks_event_done(cast):
    cast.instance()
    session.commit()
    assert session.scalar(select(Event)).fanned_out_at is not None
    assert ("worker.webhooks.fan_out", ()) not in queued_calls


# --- time of the fan-out


def test_commit_queues_fanout_of_its_events(cast, subscribe, deliveries, run_tasks):
    """WHK-84: by a notification, so within a second; tests/webhooks/test_kill.py measures it."""
    subscribe()
    cast.instance()
    assert queued_calls.count(("worker.webhooks.fan_out", ())) == 1
    run_tasks()
    assert [row.status for row in deliveries()] == ["pending"]


def test_fanout_creates_each_delivery_once(cast, subscribe, received_bodies, receiver, run_deliveries):
    """WHK-87 DLV-01: also when the periodic run follows the notification, or two runs find the same event."""
    subscribe()
    subscribe()
    cast.instance()
    assert len(received_bodies()) == 2
    run_deliveries()
    session.execute(update(Event).values(fanned_out_at=None))
    run_deliveries()
    assert receiver.posts == []


def test_fanout_handles_two_hundred_events_per_resource_type(cast, subscribe, deliveries):
    """WHK-85 WHK-86: without a notification, oldest first."""
    subscribe()
    record_missed_events("instance", 250, cast.owner.id)
    record_missed_events("kubernetes_cluster", 250, cast.owner.id)
    webhooks.fan_out()
    assert count_deliveries() == {"instance": 200, "kubernetes_cluster": 200}
    oldest = session.scalars(select(Event.id).where(Event.resource_type == "instance").order_by(Event.id).limit(200))
    assert set(oldest) <= {row.event_id for row in deliveries()}
    webhooks.fan_out()
    assert count_deliveries() == {"instance": 250, "kubernetes_cluster": 250}


def record_missed_events(resource_type, number, account_id):
    kind = "instance.created" if resource_type == "instance" else "cluster.created"
    rows = [
        {
            "account_id": account_id,
            "kind": kind,
            "resource_type": resource_type,
            "resource_id": generate_id(),
            "data": {},
        }
        for _ in range(number)
    ]
    session.execute(insert(Event), rows)
    session.commit()


def count_deliveries():
    query = select(Event.resource_type, func.count()).join(WebhookDelivery, WebhookDelivery.event_id == Event.id)
    return dict(session.execute(query.group_by(Event.resource_type)).all())


def test_fanout_query_count_is_constant(cast, subscribe, queries):
    for _ in range(4):
        subscribe()
    record_missed_events("instance", 1, cast.owner.id)
    queries.clear()
    fanout.fan_out()
    query_count = len(queries)
    record_missed_events("instance", 150, cast.owner.id)
    queries.clear()
    fanout.fan_out()
    assert len(queries) == query_count


def test_deliveries_are_purged_after_a_week(cast, subscribe, received_bodies, deliveries, advance_clock):
    """WHK-88: deliveries are deleted with their events."""
    subscribe()
    cast.instance()
    received_bodies()
    advance_clock(days=6)
    purge.purge_expired()
    assert len(deliveries()) == 1
    advance_clock(days=2)
    purge.purge_expired()
    assert deliveries() == []
    assert session.scalars(select(Event)).all() == []


def test_event_is_rolled_back_with_its_change(cast, subscribe, deliveries):
    subscribe()
    instance = cast.instance()
    queued_calls.clear()
    state_reports.on_deployed(instance, actor="test")
    session.rollback()
    webhooks.fan_out()
    assert [row.event_kind for row in deliveries()] == ["instance.created"]
    assert ("worker.webhooks.fan_out", ()) not in queued_calls


def test_every_event_kind_has_payload_builder():
    assert {row.resource for row in EVENT_KINDS.values()} == events.PAYLOAD_BUILDERS.keys()
    assert len(INSTANCE_EVENT_KINDS) == 7
