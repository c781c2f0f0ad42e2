"""Webhook deliveries by two worker processes on PostgreSQL.

Targets: at least 0.6 of the deliveries a second of as many bare loops, which sign and post the same bodies to the same
receiver over persistent connections; 99 of 100 events arrive within 2 s while 10,000 deliveries wait for unreachable
receivers; creating 100,000 deliveries takes at most 50 MiB more memory.
"""

import contextlib
import json
import socket
import statistics
import tempfile
import time
import tracemalloc
import urllib.request
from datetime import timedelta
from pathlib import Path
from ssl import create_default_context

from sqlalchemy import insert, select, update

from panel.app import create_app
from panel.core import clock, events, jobs
from panel.core.config import Config
from panel.core.db import generate_id, session
from panel.models import Event, Instance, WebhookDelivery, WebhookSubscription
from panel.services import workers
from panel.services.webhooks import fanout, signing
from tests.bench import rows as rows_bench
from tests.bench.console_peers import BenchProcess
from tests.bench.receivers import WEBHOOK_SECRET
from tests.support import postgres, redis_server
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import CertificateAuthority

ROUNDS, DELIVERIES, SUBSCRIPTIONS, PROCESSES = 5, 8000, 8, 2
EVENTS, EVENT_INTERVAL_SECONDS, DEAD_DELIVERIES = 200, 0.05, 10_000
MANY_EVENTS, DELIVERIES_PER_EVENT = 5000, 20
DUE_DELAY = timedelta(days=1)
QUICK_SIZES = {
    "ROUNDS": 1,
    "DELIVERIES": 80,
    "EVENTS": 3,
    "DEAD_DELIVERIES": 10,
    "MANY_EVENTS": 210,
    "DELIVERIES_PER_EVENT": 2,
}


def bench(report):
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(postgres.run_server())
        redis_url = stack.enter_context(redis_server.RedisServer(directory))
        site = WebhookSite(directory, url, redis_url)
        site.receiver = int(stack.enter_context(site.start_process("receiver", site.certificate)).first_line)
        with site.app.app_context():
            measure_memory(report, site)
            environment = site.environment
            for _ in range(PROCESSES):
                stack.enter_context(BenchProcess("worker", module="panel.cli", ready=lambda: True, **environment))
            wait_until(lambda: workers.count_alive() == PROCESSES, "the workers")
            measure_throughput(report, site)
            measure_delay_with_dead_receivers(report, site)


class WebhookSite:
    """An installation and its receiver."""

    def __init__(self, directory, url, redis_url):
        self.directory, authority = directory, CertificateAuthority()
        self.authority, self.certificate = directory / "authority.pem", authority.issue(directory)
        self.authority.write_text(authority.pem)
        config = Config(data_dir=directory, database_url=url, secret_key="bench", redis_url=redis_url)
        rows_bench.create_customer(config)
        self.app = create_app(config)
        self.environment = {
            "PANEL_DATA_DIR": str(directory),
            "PANEL_DATABASE_URL": url,
            "PANEL_SECRET_KEY": config.secret_key,
            "PANEL_REDIS_URL": redis_url,
            "PANEL_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8",
            "PANEL_WEBHOOK_CA_FILE": str(self.authority),
        }
        self.receiver = None

    def start_process(self, *arguments):
        return BenchProcess(*arguments, module="tests.bench.receivers")

    def url(self, path="/hook"):
        return f"https://127.0.0.1:{self.receiver}{path}"

    def get_statistics(self):
        """Return the statistics of the receiver."""
        context = create_default_context(cafile=self.authority)
        with urllib.request.urlopen(self.url(), context=context) as answer:
            return json.load(answer)

    def subscribe(self, url, **values):
        account = session.scalar(select(Instance.account_id).limit(1))
        facts = {"name": "bench", "secret": WEBHOOK_SECRET, "event_kinds": ["*"], "is_fast": True, **values}
        row = WebhookSubscription(account_id=account, url=url, **facts)
        session.add(row)
        session.commit()
        return row

    def add_events(self, count):
        """Add events without deliveries. Return their ids."""
        instance = session.scalars(select(Instance).limit(1)).one()
        facts = {
            "account_id": instance.account_id,
            "kind": "instance.created",
            "resource_type": "instance",
            "resource_id": instance.id,
            "data": {},
            "snapshot": events.build_instance_payload(instance),
        }
        rows = [{"id": generate_id(), **facts} for _ in range(count)]
        session.execute(insert(Event), rows)
        session.commit()
        return [row["id"] for row in rows]

    def add_deliveries(self, subscription, event_ids, due_at):
        facts = {"account_id": subscription.account_id, "subscription_id": subscription.id, "due_at": due_at}
        facts["event_kind"] = "instance.created"
        session.execute(insert(WebhookDelivery), [{"event_id": event_id, **facts} for event_id in event_ids])
        session.commit()

    def clear(self):
        for model in (WebhookSubscription, Event):
            session.query(model).delete()
        session.commit()
        session.expunge_all()


# --- speed


def measure_throughput(report, site):
    """Measure workers and bare loops in turn, so that other load affects both equally."""
    ratios = []
    for _ in range(ROUNDS):
        bare_rate, worker_rate = run_bare_loops(site), run_dispatchers(site)
        ratios.append(worker_rate / bare_rate)
        print(f"webhooks: bare {bare_rate:.0f}/s, ours {worker_rate:.0f}/s", flush=True)
    report("deliveries a second, against bare loops", statistics.median(ratios), minimum=0.6)


def run_dispatchers(site):
    """Return deliveries a second of the workers, from the moment when all are due."""
    site.clear()
    event_ids = site.add_events(DELIVERIES // SUBSCRIPTIONS)
    session.execute(update(Event).values(fanned_out_at=clock.now()))
    for number in range(SUBSCRIPTIONS):
        site.add_deliveries(site.subscribe(site.url(f"/{number}")), event_ids, clock.now() + DUE_DELAY)
    before = site.get_statistics()["count"]
    session.execute(update(WebhookDelivery).values(due_at=clock.now()))
    session.commit()
    jobs.enqueue_call("worker.webhooks.wake_dispatcher")
    return measure_deliveries(site, before)


def run_bare_loops(site):
    """Return deliveries a second of the bare loops, with the same bodies and as many processes."""
    site.clear()
    site.add_events(DELIVERIES // PROCESSES)
    session.execute(update(Event).values(fanned_out_at=clock.now()))
    bodies, go = site.directory / "bodies", site.directory / "go"
    bodies.write_bytes(b"\n".join(map(signing.make_body, session.scalars(select(Event)))))
    session.commit()
    go.unlink(missing_ok=True)
    arguments = site.url(), site.authority, bodies, go
    with contextlib.ExitStack() as stack:
        for _ in range(PROCESSES):
            stack.enter_context(site.start_process("bare", *arguments))
        before = site.get_statistics()["count"]
        go.touch()
        return measure_deliveries(site, before)


def measure_deliveries(site, before):
    start = time.monotonic()
    while site.get_statistics()["count"] - before < DELIVERIES:
        time.sleep(0.05)
    return DELIVERIES / (time.monotonic() - start)


def measure_delay_with_dead_receivers(report, site):
    """Measure from an event to its first attempt, while deliveries wait for a closed and a silent port."""
    site.clear()
    with silent_port() as port:
        dead = [
            site.subscribe(f"https://127.0.0.1:{dead_port}/", is_fast=False) for dead_port in (find_free_port(), port)
        ]
        event_ids = site.add_events(DEAD_DELIVERIES // 2)
        for subscription in dead:
            site.add_deliveries(subscription, event_ids, clock.now())
        session.execute(update(Event).values(fanned_out_at=clock.now()))
        site.subscribe(site.url("/late"))
        instance = session.scalars(select(Instance).limit(1)).one()
        for _ in range(EVENTS):
            events.record("instance.status_changed", "instance", instance, actor="bench")
            session.commit()
            time.sleep(EVENT_INTERVAL_SECONDS)
        wait_until(lambda: len(site.get_statistics()["late"]) == EVENTS, "all events to arrive")
        delays = sorted(site.get_statistics()["late"].values())
        pending = session.query(WebhookDelivery).filter_by(status="pending", attempts=0).count()
    print(
        f"webhooks: half of the events arrive within {statistics.median(delays):.2f} s; {pending} still wait",
        flush=True,
    )
    report("an event to its first attempt, 99 of 100", delays[int(EVENTS * 0.99)], 2.0, unit=" s")


@contextlib.contextmanager
def silent_port():
    """Yield a port that accepts no further connections."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


# --- memory


def measure_memory(report, site):
    """Measure the memory of creating deliveries."""
    for _ in range(DELIVERIES_PER_EVENT):
        site.subscribe(site.url())
    site.add_events(MANY_EVENTS)
    fanout.fan_out()
    session.commit()
    tracemalloc.start()
    before, start = tracemalloc.get_traced_memory()[0], time.monotonic()
    while fanout.fan_out():
        session.commit()
    seconds, peak = time.monotonic() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    deliveries = session.query(WebhookDelivery).count()
    session.commit()
    assert deliveries == MANY_EVENTS * DELIVERIES_PER_EVENT
    print(f"webhooks: {deliveries / seconds:.0f} deliveries a second are made, with every allocation noted", flush=True)
    report("memory for making 100,000 deliveries", (peak - before) / 2**20, 50, unit=" MiB")
