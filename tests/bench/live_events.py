"""Open pages: from a commit until all streams of changes have it, with the real web and console processes.

Targets of the design: a change reaches 1,000 open pages, each of a session of its own, within a second; a stream costs
at most 16 KiB; requests are answered within 50 ms (99 of 100) while the streams are open, because they occupy no thread
of the web.
"""

import contextlib
import resource
import selectors
import socket
import statistics
import tempfile
import time
from pathlib import Path

from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, Instance
from panel.services import sessions
from tests.bench.site import ConsoleSite, fetch_page
from tests.support import redis_server

STREAMS, ROUNDS, REQUESTS = 1000, 20, 200
QUICK_SIZES = {"STREAMS": 20, "ROUNDS": 3, "REQUESTS": 5}
WAIT_SECONDS = 60
NO_NODE = 0


def bench(report):
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis_url = stack.enter_context(redis_server.RedisServer(directory))
        site = stack.enter_context(ConsoleSite(directory, redis_url, NO_NODE))
        readers = stack.enter_context(EventReaders(site))
        readers.open(STREAMS // 10 or 1)  # warm-up: loads modules and pools
        before = site.console_process.memory_full_info().uss
        start = time.perf_counter()
        readers.open(STREAMS)
        print(f"{STREAMS} streams opened in {time.perf_counter() - start:.1f} s", flush=True)
        memory = (site.console_process.memory_full_info().uss - before) / STREAMS / 1024
        delays = [readers.measure_change(site, number) for number in range(ROUNDS)]
        report(f"memory of a stream, {STREAMS} open", memory, 16, unit=" KiB")
        report(f"a change reaches {STREAMS} pages, in the middle", statistics.median(delays), 1.0, unit=" s")
        report(f"a change reaches {STREAMS} pages, at worst", max(delays), 1.0, unit=" s")
        report("a request while streams are open", measure_requests(site), 50, unit=" ms")


class EventReaders:
    """Browsers, each with a session and a stream."""

    def __init__(self, site):
        self.site, self.selector, self.connections = site, selectors.DefaultSelector(), []
        self.serializer = site.app.session_interface.get_signing_serializer(site.app)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections:
            connection.close()

    def open(self, count):
        """Open streams of new sessions and wait for their first events."""
        for cookie in self.create_cookies(count):
            connection = socket.create_connection(("127.0.0.1", self.site.port))
            request = (
                f"GET /live?since={int(time.time() * 1000)} HTTP/1.1\r\nHost: bench\r\nCookie: panel={cookie}\r\n\r\n"
            )
            connection.sendall(request.encode())
            self.connections.append(connection)
            self.selector.register(connection, selectors.EVENT_READ)
        self.wait_for(b"event: ready", self.connections[-count:])

    def create_cookies(self, count):
        with self.site.app.app_context():
            account = session.scalars(select(Account).order_by(Account.id).limit(1)).one()
            secrets = [sessions.start(account, ip="127.0.0.1", user_agent="bench") for _ in range(count)]
            session.commit()
        return [self.serializer.dumps({"_user_id": secret, "_permanent": True}) for secret in secrets]

    def wait_for(self, text, connections):
        waiting, received = set(connections), {}
        deadline = time.monotonic() + WAIT_SECONDS
        while waiting and time.monotonic() < deadline:
            for key, _ in self.selector.select(1):
                data = received[key.fileobj] = received.get(key.fileobj, b"") + key.fileobj.recv(65536)
                assert data, "The stream has ended."
                if text in data:
                    waiting.discard(key.fileobj)
        assert not waiting, f"{len(waiting)} streams do not have {text}."

    def measure_change(self, site, number):
        """Return the seconds from before a commit until each stream has it."""
        with site.app.app_context():
            instance = session.scalars(select(Instance).order_by(Instance.id).limit(1)).one()
            instance.notes = f"note {number}"
            start = time.perf_counter()
            session.commit()
        self.wait_for(instance.id.encode(), self.connections)
        return time.perf_counter() - start


def measure_requests(site):
    """Return the milliseconds within which 99 of 100 requests are answered."""
    durations = []
    for _ in range(REQUESTS):
        start = time.perf_counter()
        fetch_page(site.port)
        durations.append((time.perf_counter() - start) * 1000)
    return statistics.quantiles(durations, n=100)[98]
