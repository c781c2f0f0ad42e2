"""What it costs to find out who asks and whether they may: `GET /api/connect` against the same view without that.

Both are asked in turn on one kept connection, served by one process with a Redis beside it. The one without still
counts its requests and has the same way through the framework. Target: at most 15 % of the time of a request.
"""

import http.client
import statistics
import tempfile
import time
from pathlib import Path

from panel.app import create_app
from panel.auth import permissions
from panel.core.config import Config
from panel.core.db import db, session
from panel.services import accounts, settings, tokens
from tests.bench import rows
from tests.bench.rows import ServedPanel
from tests.support import postgres
from tests.support.redis_server import RedisServer

ROUNDS = 2000
QUICK = {"ROUNDS": 5}
GUARDED, OPEN = "/api/connect", "/api/profile/open"


def bench(report):
    with (
        tempfile.TemporaryDirectory() as directory,
        postgres.run_server() as address,
        RedisServer(directory) as redis_url,
    ):
        for name, url in rows.databases(address):
            config = Config(data_dir=Path(directory) / name, database_url=url, secret_key="bench", redis_url=redis_url)
            config.data_dir.mkdir()
            token = fill(config)
            with ServedOpenView(config) as port:
                guarded, without = in_turn(port, token)
            print(f"{name}: {guarded * 1e6:.0f} µs with, {without * 1e6:.0f} µs without", flush=True)
            report(f"share of authentication and authorisation in a request, {name}", 1 - without / guarded, 0.15)


def fill(config):
    """A customer's token that may ask as often as it takes."""
    app = create_app(config)
    with app.app_context():
        db.create_all()
        account = accounts.create(email="bench@example.com")
        value = tokens.issue("user", name="bench", account=account, scopes=permissions.USER)[1]
        settings.update({"rate_limit_requests": 10**6})
        session.commit()
        db.engine.dispose()
    return value


class ServedOpenView(ServedPanel):
    target = "tests.bench.apps:panel_with_an_open_view()"


def in_turn(port, token):
    """The median answer times of both, asked alternately."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    taken = {GUARDED: [], OPEN: []}
    for round_ in range(ROUNDS + 100):
        for path, times in taken.items():
            began = time.perf_counter()
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            body = answer.read()
            if round_ >= 100:
                times.append(time.perf_counter() - began)
            assert answer.status == 200, body
    return (statistics.median(times) for times in taken.values())
