"""Lists of micro VMs beside a million ended ones, and the panel while 500 command streams are open.

Two installations, one with a thousand ended micro VMs and one with a million, are requested in turn. Targets: the list
of both APIs and the page take at most 1.3 times as long beside a million; while 500 streams are open through a router,
answers of a web process with four threads take at most twice as long as before (99th percentile).
"""

import asyncio
import contextlib
import http.client
import statistics
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

from sqlalchemy import func, insert, select, text

from panel.app import create_app
from panel.auth import permissions
from panel.core import clock
from panel.core.config import Config
from panel.core.db import db, generate_id, session
from panel.models import Microvm, MicrovmImage
from panel.services import accounts, hypervisors, microvm_api_keys, settings, tokens
from panel.services.access import get_for_account
from tests.bench import rows
from tests.bench.nodes import find_99th_percentile
from tests.sandbox_router.lab import Lab, build_request, build_route, make_host, run_program, serve_stream
from tests.support import postgres
from tests.support.redis_server import RedisServer

LIVE_ROWS, FEW_ENDED, MANY_ENDED, BATCH_ROWS, ROUNDS = 100, 1000, 1_000_000, 20_000, 200
STREAMS, STREAM_SANDBOXES, HEALTH_REQUESTS = 500, 8, 1000
QUICK_SIZES = {
    "LIVE_ROWS": 10,
    "FEW_ENDED": 10,
    "MANY_ENDED": 100,
    "BATCH_ROWS": 50,
    "ROUNDS": 3,
    "STREAMS": 16,
    "HEALTH_REQUESTS": 30,
}
EMAIL, PASSWORD = "bench@example.com", "a long bench password"
ENDED_AGE = timedelta(days=1)


def bench(report):
    with tempfile.TemporaryDirectory() as directory, RedisServer(directory) as redis_url:
        with postgres.run_server() as one, postgres.run_server() as other:
            for (name, few_url), (_name, many_url) in zip(
                rows.list_databases(one), rows.list_databases(other), strict=True
            ):
                few = Site(Path(directory) / f"{name}-few", few_url, redis_url, FEW_ENDED)
                many = Site(Path(directory) / f"{name}-many", many_url, redis_url, MANY_ENDED)
                with rows.PanelServer(few.config) as few_port, rows.PanelServer(many.config) as many_port:
                    label = f"{{}}, {name}, beside a million ended ones against a thousand"
                    measure_lists(report, label, (few, few_port), (many, many_port), ROUNDS)
        measure_streams(report, Path(directory), redis_url)


class Site:
    """An installation of a customer with live and ended micro VMs."""

    def __init__(self, folder, url, redis_url, ended):
        folder.mkdir()
        self.config = Config(data_dir=folder, database_url=url, secret_key="bench", redis_url=redis_url)
        app = create_app(self.config)
        with app.app_context(), rows.suppress_jobs():
            db.create_all()
            account = accounts.create(email=EMAIL, password=PASSWORD)
            group = hypervisors.create_group(name="bench", display_name="Bench")
            node = hypervisors.create(group, name="n", driver="simulated", uri="simulated://", storage_path="/x")
            image = MicrovmImage(name="sandbox", aliases=["base"], files_key="k", **make_files())
            session.add(image)
            settings.update({"rate_limit_requests": 10**6, "billing_enabled": True})
            session.flush()
            self.token = tokens.issue("user", name="bench", account=account, scopes=permissions.USER_SCOPES)[1]
            self.key = microvm_api_keys.create(get_for_account(account), name="bench")[1]
            self.common = {
                "account_id": account.id,
                "group_id": group.id,
                "hypervisor_id": node.id,
                "storage_id": node.storages[0].id,
                "image_id": image.id,
                "boot": {},
                "access_token": "t",
                "cpu_cores": 1,
                "memory_mb": 512,
                "disk_gb": 2,
            }
            self.add(LIVE_ROWS, "running", None)
            for first in range(0, ended, BATCH_ROWS):
                self.add(min(BATCH_ROWS, ended - first), "destroying", clock.now() - ENDED_AGE)
                session.commit()
            session.execute(text("analyze"))
            session.commit()
            assert session.scalar(select(func.count()).select_from(Microvm)) == LIVE_ROWS + ended
            db.engine.dispose()

    def add(self, count, state, ended_at):
        new = [
            {**self.common, "id": id_, "sandbox_id": id_.replace("-", "")[:32], "name": "worker", "mac": id_[-17:]}
            for id_ in (generate_id() for _number in range(count))
        ]
        session.execute(insert(Microvm), [{**row, "state": state, "ended_at": ended_at} for row in new])

    def build_requests(self, port):
        """Return (path, headers) of the lists by name."""
        return {
            "the API's list": ("/api/microvm/vms?per_page=100", {"Authorization": f"Bearer {self.token}"}),
            "the sandbox API's list": ("/api/sbx/v2/sandboxes", {"X-API-Key": self.key}),
            "the page": ("/microvms", {"Cookie": sign_in(port)}),
        }


def make_files():
    kinds = ("disk", "kernel", "initrd")
    return {
        f"{kind}_{name}": value for kind in kinds for name, value in (("path", "p"), ("size", 1), ("sha256", "0" * 64))
    }


def sign_in(port):
    """Return the cookie of a browser that has signed in."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{port}"}
    connection.request("POST", "/sign-in", urlencode({"email": EMAIL, "password": PASSWORD}), headers)
    answer = connection.getresponse()
    assert answer.status == 303, answer.read()
    cookies = [value.partition(";")[0] for name, value in answer.getheaders() if name.lower() == "set-cookie"]
    connection.close()
    return "; ".join(cookies)


def measure_lists(report, label, few, many, rounds):
    """Request the lists of two installations with their ports in turn, and compare the medians."""
    requests = [(port, site.build_requests(port)) for site, port in (few, many)]
    for what in requests[0][1]:
        connections = [(http.client.HTTPConnection("127.0.0.1", port), of[what]) for port, of in requests]
        times = ([], [])
        for round_ in range(rounds + 20):
            for (connection, (path, headers)), own in zip(connections, times, strict=True):
                seconds = time_request(connection, path, headers)
                if round_ >= 20:
                    own.append(seconds)
        medians = [statistics.median(own) for own in times]
        print(f"  {what}: {1000 * medians[0]:.1f} ms, {1000 * medians[1]:.1f} ms", flush=True)
        report(label.format(what), medians[1] / medians[0], 1.3)


def time_request(connection, path, headers=()):
    start = time.perf_counter()
    connection.request("GET", path, headers=dict(headers))
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    return time.perf_counter() - start


def measure_streams(report, directory, redis_url):
    folder = directory / "streams"
    folder.mkdir()
    config = Config(data_dir=folder, secret_key="bench", redis_url=redis_url)
    app = create_app(config)
    with app.app_context():
        db.create_all()
        db.engine.dispose()
    with rows.PanelServer(config) as port:
        before = measure_health(port)
        with open_streams(folder):
            during = measure_health(port)
    idle, busy = (find_99th_percentile(times) for times in (before, during))
    print(f"  /healthz, 99th: {1000 * idle:.1f} ms, with {STREAMS} streams {1000 * busy:.1f} ms", flush=True)
    report(f"/healthz with {STREAMS} open streams, 99th", busy / idle, 2)


def measure_health(port):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    return [time_request(connection, "/healthz") for _number in range(HEALTH_REQUESTS)]


@contextlib.contextmanager
def open_streams(folder):
    """Keep streams open through a router, whose event loop is a thread of this process."""
    opened, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(stream(folder, opened, ended)))
    thread.start()
    try:
        assert opened.wait(120), "The streams did not open."
        yield
    finally:
        ended.set()
        thread.join()


async def stream(folder, opened, ended):
    ids = [f"sandbox{number}" for number in range(STREAM_SANDBOXES)]
    lab = Lab(folder, {sandbox_id: build_route(sandbox_id) for sandbox_id in ids})
    async with lab.run_router(), run_program(serve_stream) as port:
        writers = []
        for number in range(STREAMS):
            reader, writer = await asyncio.open_connection(*lab.address)
            writer.write(build_request(host=make_host(port, ids[number % STREAM_SANDBOXES])))
            await reader.readuntil(b"hello\r\n")
            writers.append(writer)
        opened.set()
        await asyncio.to_thread(ended.wait)
        for writer in writers:
            writer.close()
