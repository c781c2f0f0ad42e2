"""The metrics of an account with 10,000 instances as Prometheus scrapes them, against sending the same bytes.

Targets: without the cache a scrape takes at most one second; with it at most 1.5 times as long as an operation of the
same kind of server that checks the token in the same way and sends the same bytes. Both are requested in turn.
"""

import http.client
import statistics
import tempfile
import time
from pathlib import Path

from redis import Redis
from sqlalchemy import insert, select, text

from panel.app import create_app
from panel.core import clock
from panel.core.config import Config
from panel.core.db import db, session
from panel.models import Account, GuestInfo, Hypervisor, Instance, Plan, Subnet
from panel.models.metrics import METRIC_NAMES
from panel.services import metrics, settings, tokens
from panel.services.metrics.ring_buffer import FINEST_STEP
from tests.bench import rows
from tests.support import postgres
from tests.support.redis_server import RedisServer

INSTANCES, ROUNDS, COLD_ROUNDS = 10_000, 60, 5
QUICK_SIZES = {"INSTANCES": 120, "ROUNDS": 3, "COLD_ROUNDS": 2}
PATH = "/api/metrics"
FILESYSTEMS = [{"mountpoint": "/", "kind": "ext4", "size": 10**10, "used": 10**9}]


def bench(report):
    with tempfile.TemporaryDirectory() as directory, postgres.run_server() as address, RedisServer(directory) as redis:
        for name, url in rows.list_databases(address):
            config = Config(data_dir=Path(directory) / name, database_url=url, secret_key="bench", redis_url=redis)
            config.data_dir.mkdir()
            rows.create_customer(config)
            token = add_instances(config)
            with rows.PanelServer(config) as port:
                add_samples(config)
                cold, body = measure_cold(port, token, redis)
                report(f"metrics of {INSTANCES} instances without the cache, {name}", cold, 1.0, unit=" s")
                with BodyServer(config, body) as plain_port:
                    for encoding in ("identity", "gzip"):
                        cached, plain = measure_in_turn((port, plain_port), token, encoding)
                        print(f"{name}, {encoding}: {cached * 1000:.1f} ms, {plain * 1000:.1f} ms for the same bytes")
                        label = f"metrics from the cache, {encoding}, {name}, against sending the same bytes"
                        report(label, cached / plain, 1.5)


def add_instances(config):
    """Add instances of the customer up to `INSTANCES`, each with a report of its guest. Return a token."""
    with create_app(config).app_context(), rows.suppress_jobs():
        node, account = session.scalar(select(Hypervisor)), session.scalar(select(Account).order_by(Account.id))
        node.status = "up"
        plan, subnet = session.scalar(select(Plan)), session.scalar(select(Subnet))
        rows.add_instances(account, node, plan, subnet, rows.OWN_INSTANCES, INSTANCES - rows.OWN_INSTANCES)
        settings.update({"rate_limit_metrics": 10**6})
        token = tokens.issue("user", name="bench", account=account, scopes=["metrics:read"])[1]
        common = {"at": clock.now(), "addresses": [], "filesystems": FILESYSTEMS}
        session.execute(
            insert(GuestInfo), [common | {"instance_id": id_} for id_ in session.scalars(select(Instance.id))]
        )
        session.commit()
        session.execute(text("analyze"))
        session.commit()
        db.engine.dispose()
    return token


def add_samples(config):
    """Add a sample of each instance for every step of the last two minutes."""
    with create_app(config).app_context():
        ids = session.scalars(select(Instance.id)).all()
        values = dict(zip(METRIC_NAMES, (12.345, 256.7, 1.5, 0.25, 4096.0, 8192.0, 2.5, 4.75), strict=True))
        now = clock.now().timestamp()
        for age in range(120, -1, -FINEST_STEP):
            metrics.write(dict.fromkeys(ids, values), now - age)
        session.commit()
        db.engine.dispose()


class BodyServer(rows.PanelServer):
    """The panel with an operation that sends the bytes that a scrape returned."""

    target = "tests.bench.apps:create_panel_with_body()"

    def __init__(self, config, body):
        super().__init__(config)
        (config.data_dir / "body").write_bytes(body)
        self.environment["PLAIN_BODY"] = str(config.data_dir / "body")


def measure_cold(port, token, redis_url):
    """Return the median seconds of scrapes without the cache, and what they return."""
    times, client = [], Redis.from_url(redis_url)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    request(connection, token, "identity")  # imports modules and opens connections
    for _ in range(COLD_ROUNDS):
        for key in client.scan_iter("panel:metrics-export:*"):
            client.delete(key)
        seconds, body = request(connection, token, "identity")
        times.append(seconds)
    assert body.count(b"hv_instance_cpu_percent{") == INSTANCES
    return statistics.median(times), body


def measure_in_turn(ports, token, encoding):
    """Request both servers alternately. Return their median response times."""
    connections = [http.client.HTTPConnection("127.0.0.1", port) for port in ports]
    times = ([], [])
    for _ in range(ROUNDS):
        bodies = []
        for connection, path, seconds in zip(connections, (PATH, f"{PATH}/body"), times, strict=True):
            duration, body = request(connection, token, encoding, path)
            seconds.append(duration)
            bodies.append(body)
    assert encoding == "gzip" or len({len(body) for body in bodies}) == 1
    return tuple(statistics.median(seconds) for seconds in times)


def request(connection, token, encoding, path=PATH):
    """Return the seconds of one scrape and its body."""
    start = time.perf_counter()
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}", "Accept-Encoding": encoding})
    answer = connection.getresponse()
    body = answer.read()
    assert (answer.status, answer.headers["Content-Encoding"]) == (200, "gzip" if encoding == "gzip" else None)
    return time.perf_counter() - start, body
