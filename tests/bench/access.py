"""The cost of authentication and authorization: `GET /api/connect` against the same view as a public route.

Both are requested in turn on one persistent connection to one process with a Redis server. The public route has the
same rate limit and the same path through the framework. Target: at most 15 % of the time of a request.
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
from tests.bench.rows import PanelServer
from tests.support import postgres
from tests.support.redis_server import RedisServer

ROUNDS = 2000
QUICK_SIZES = {"ROUNDS": 5}
GUARDED_PATH, PUBLIC_PATH = "/api/connect", "/api/profile/open"


def bench(report):
    with (
        tempfile.TemporaryDirectory() as directory,
        postgres.run_server() as address,
        RedisServer(directory) as redis_url,
    ):
        for name, url in rows.list_databases(address):
            config = Config(data_dir=Path(directory) / name, database_url=url, secret_key="bench", redis_url=redis_url)
            config.data_dir.mkdir()
            token = create_customer(config)
            with PublicViewServer(config) as port:
                guarded, public = measure_in_turn(port, token)
            print(f"{name}: {guarded * 1e6:.0f} µs with, {public * 1e6:.0f} µs without", flush=True)
            report(f"share of authentication and authorization in a request, {name}", 1 - public / guarded, 0.15)


def create_customer(config):
    """Create a customer with a token that is practically not rate limited. Return the token."""
    app = create_app(config)
    with app.app_context():
        db.create_all()
        account = accounts.create(email="bench@example.com")
        value = tokens.issue("user", name="bench", account=account, scopes=permissions.USER_SCOPES)[1]
        settings.update({"rate_limit_requests": 10**6})
        session.commit()
        db.engine.dispose()
    return value


class PublicViewServer(PanelServer):
    target = "tests.bench.apps:create_panel_with_public_view()"


def measure_in_turn(port, token):
    """Request both routes alternately. Return their median response times."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times_by_path = {GUARDED_PATH: [], PUBLIC_PATH: []}
    for round_ in range(ROUNDS + 100):
        for path, times in times_by_path.items():
            start = time.perf_counter()
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            body = answer.read()
            if round_ >= 100:
                times.append(time.perf_counter() - start)
            assert answer.status == 200, body
    return (statistics.median(times) for times in times_by_path.values())
