"""Real worker processes that are killed at each step, and a Redis that is lost: every event arrives, and recorded
deliveries are not sent again. Leases and intervals are shorter here than in production."""

import json
import time
from collections import Counter

import pytest
from sqlalchemy import select

from panel.core import context
from panel.core.db import session
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.services import instances
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import Receiver
from tests.support.worker_site import WorkerSite, run_site

pytestmark = pytest.mark.processes

WORKER_SCRIPT = """
import importlib, os, signal, sys
from datetime import timedelta
from panel.core.config import load
from panel.services.webhooks import delivery_queue
from worker.engine import main
from worker.webhooks import delivery_run

delivery_queue.LEASE_DURATION, delivery_run.OUTCOME_WRITE_INTERVAL_SECONDS = timedelta(seconds=4), 0.05

def die(where, name, when, flag):
    "Kill this process at the first call."
    owner = importlib.import_module(where.split(":")[0])
    for part in where.split(":")[1:]:
        owner = getattr(owner, part)
    real = getattr(owner, name)

    def call_or_die(*args, **options):
        if when == "before" and os.path.exists(flag):
            os.unlink(flag)
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **options)
        if when == "after" and os.path.exists(flag):
            os.unlink(flag)
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, call_or_die)

if sys.argv[1:]:
    die(*sys.argv[1:])
main.run_worker(load())
"""

SCHEDULER_SCRIPT = """
from panel.core.config import load
from worker.engine import main, scheduler
schedule = scheduler.Scheduler(main.prepare_app(load()))
for call in schedule.calls:
    if getattr(call, "args", None) and call.args[0].path == "worker.webhooks.fan_out":
        schedule.calls[call] = 2.0
        break
else:
    raise SystemExit("no periodic fan-out")
schedule.run()
"""

KILL_POINTS = {
    "deliveries created, not committed": ("panel.services.webhooks.fanout", "fan_out", "after"),
    "deliveries committed, dispatcher not woken": ("worker.webhooks", "wake_dispatcher", "before"),
    "leased, nothing sent": ("panel.services.webhooks.delivery_queue", "load_batch", "before"),
    "before the first attempt": ("worker.webhooks.connection:ReceiverConnection", "connect", "after"),
    "sent, no answer read": ("worker.webhooks.connection:ReceiverConnection", "send", "after"),
    "answered, not recorded": ("panel.services.webhooks.delivery_queue", "record_outcomes", "before"),
    "recorded, not committed": ("panel.services.webhooks.delivery_queue", "record_outcomes", "after"),
    "committed, still leased": ("worker.webhooks.delivery_run:DeliveryRun", "write", "after"),
}


class Site(WorkerSite):
    """It has a receiver in a thread of the test."""

    def __init__(self, app, directory, receiver, authority):
        authority_file = directory / "authority.pem"
        authority_file.write_text(authority.pem)
        super().__init__(
            app,
            directory,
            PANEL_WEBHOOK_ALLOWED_NETWORKS="127.0.0.0/8",
            PANEL_WEBHOOK_CA_FILE=str(authority_file),
        )
        self.receiver = receiver

    def start_worker(self, name="worker", *dies):
        return self.start_script(name, WORKER_SCRIPT, *dies)

    def start_scheduler(self):
        return self.start_script("schedule", SCHEDULER_SCRIPT)

    def subscribe(self, **values):
        cast = self.app.cast
        row = WebhookSubscription(
            account_id=cast.owner.id,
            name="test",
            **{"url": self.receiver.url(), "secret": "a secret of the tests", "event_kinds": ["*"], **values},
        )
        session.add(row)
        session.commit()
        return row.id

    def record_events(self, count=1):
        cast = self.app.cast
        placement = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        for _ in range(count):
            instances.create(session.merge(cast.owner), **placement)
            session.commit()

    def is_fanned_out(self):
        """Return whether all events have deliveries."""
        open_events = session.scalars(select(Event.id).where(Event.fanned_out_at.is_(None))).all()
        session.rollback()
        return not open_events

    def is_delivered(self):
        """Return whether all events have deliveries and all deliveries arrived."""
        statuses = session.scalars(select(WebhookDelivery.status)).all()
        session.rollback()
        return statuses and self.is_fanned_out() and set(statuses) == {"delivered"}

    def count_posts(self):
        """Return the number of received posts of each event."""
        return Counter(json.loads(post.body)["event"]["id"] for post in self.receiver.posts)


@pytest.fixture
def site(tmp_path, certificate, authority):
    receiver = Receiver(certificate)
    with run_site(tmp_path, Site, receiver, authority) as installation:
        yield installation
    receiver.close()


@pytest.mark.parametrize("step", KILL_POINTS)
def test_deliveries_survive_worker_kill_at_each_step(site, step, tmp_path):
    """WHK-85 WHK-87: at least once, and not again after the delivery was recorded."""
    flag = tmp_path / "flag"
    site.subscribe()
    site.start_scheduler()
    flag.touch()
    site.record_events(3)
    first_worker = site.start_worker("first", *KILL_POINTS[step], str(flag))
    wait_until(lambda: first_worker.poll() is not None, "the end of the worker")
    assert not flag.exists()
    rows = session.execute(select(WebhookDelivery.event_id).where(WebhookDelivery.status == "delivered"))
    recorded = {row.event_id: site.count_posts()[row.event_id] for row in rows}
    session.rollback()
    site.start_worker("second")
    wait_until(site.is_delivered, "all deliveries")
    time.sleep(0.5)
    posts = site.count_posts()
    assert len(posts) == 3
    assert all(1 <= count <= 2 for count in posts.values())
    assert {event_id: posts[event_id] for event_id in recorded} == recorded


def test_deliveries_survive_redis_loss(site):
    """WHK-84 WHK-85: an event whose notification is lost arrives by the periodic run; with Redis it arrives at once."""
    site.subscribe()
    site.start_worker()
    site.start_scheduler()
    site.record_events()
    wait_until(site.is_delivered, "the first delivery")
    site.kill_process("redis")
    context.current().redis.connection_pool.disconnect()
    site.record_events()
    assert len(site.count_posts()) == 1
    site.start_redis()
    wait_until(lambda: len(site.count_posts()) == 2, "the event whose notification was lost")
    wait_until(site.is_delivered, "all deliveries")
    site.kill_process("schedule")
    started_at = time.monotonic()
    site.record_events()
    wait_until(lambda: len(site.count_posts()) == 3, "the next event")
    assert time.monotonic() - started_at < 10
    assert set(site.count_posts().values()) == {1}


def test_terminated_worker_records_sent_deliveries(site):
    site.subscribe()
    worker = site.start_worker()
    site.record_events()
    wait_until(site.is_delivered, "the first delivery")
    site.receiver.answer = lambda handler: (time.sleep(3), handler.send_response(204), handler.end_headers())
    site.record_events(3)
    wait_until(site.is_fanned_out, "deliveries of all events")
    wait_until(lambda: len(site.receiver.posts) == 2, "the second attempt")
    worker.terminate()
    assert worker.wait(20) == 0
    states = session.scalars(select(WebhookDelivery.status).order_by(WebhookDelivery.event_id)).all()
    assert states == ["delivered", "delivered", "pending", "pending"]
    assert session.scalar(select(WebhookSubscription.leased_by)) is None
