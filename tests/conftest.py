"""The application is built once; each test runs in one transaction that is rolled back at its end.

`commit()` and what waits for it behave as in production: the session works inside savepoints of that transaction. Set
PANEL_TEST_DATABASE_URL to run the same tests on PostgreSQL.
"""

import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from flask import g
from sqlalchemy import event, inspect

from panel.app import create_app
from panel.core import jobs
from panel.core.config import Config
from panel.core.db import db, new_id, session
from panel.ratelimit import windows
from panel.services import accounts, sessions, settings
from tests.support import audit_assertions, response_assertions
from tests.support import cast as people
from worker import nodes
from worker.engine import batch, main, runner  # noqa: F401  (process registers the task bodies)
from worker.sync import node_sync

pytest_plugins = [
    "tests.support.local_hypervisor",
    "tests.support.installation",
    "tests.support.file_server",
    "tests.support.programs",
]

CONFIGURED = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PANEL_")}


STRONG, NOBODY = accounts.hasher, accounts.NOBODY
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""How the product hashes passwords, a fifth of a second each, and how tests do that have hundreds of them."""
accounts.hasher, accounts.NOBODY = QUICK, QUICK.hash("nobody has this password")


@pytest.fixture(scope="session")
def config(tmp_path_factory):
    address = CONFIGURED.get("PANEL_TEST_DATABASE_URL", "")
    return Config(
        data_dir=tmp_path_factory.mktemp("data"), database_url=address, secret_key="test", redis_url="redis://"
    )


@pytest.fixture(scope="session")
def app(config):
    """The product, with an empty database and the cast in it."""
    node_sync.data_dir = config.data_dir
    jobs.call = ring
    app = create_app(config)
    windows.alone.now = counted.time
    windows.connect("")
    app.testing = True
    app.test_client_class = response_assertions.Client
    with app.app_context():
        db.drop_all()
        db.create_all()
        app.cast = people.assemble(Path(config.data_dir))
        work_off()
    yield app
    with app.app_context():
        session.remove()
        db.engine.dispose()


class Counted:
    """The time by which limits are counted. It stands, so that no minute ends in the middle of a test."""

    BEGINS = 6e8 + 10
    """Some seconds after a minute has begun."""
    now = BEGINS

    def begin(self):
        self.now = self.BEGINS

    def time(self):
        return self.now

    def go_on(self, seconds):
        self.now += seconds


counted = Counted()
bells = []
"""What was rung for: Redis is not part of these tests."""


AT_ONCE = {
    "worker.sync.reachability.look",
    "worker.tasks.docker_deployments.check_support",
    "worker.sync.guest_agents.report",
}
"""What requests wait for is done at once, as workers with nothing else to do would."""


def ring(function, *args):
    if function in AT_ONCE:
        before = list(getattr(audit_assertions.written, "tables", ()))
        call(function, *args)
        audit_assertions.written.tables = before  # it was not the request that wrote
    else:
        bells.append((function, args))


def call(function, *args):
    module, name = function.rsplit(".", 1)
    getattr(import_module(module), name)(*args)


def work_off():
    """Answers every bell, and those that ring meanwhile."""
    while bells:
        function, args = bells.pop(0)
        if function == "worker.engine.runner.run":
            runner.run(*args, "test-worker") if len(args) == 1 else batch.run(args, f"test-worker {new_id()}")
        else:
            call(function, *args)


@contextmanager
def undone(app):
    """An application context whose transaction is undone when the block ends."""
    with app.app_context():
        engines = db._app_engines[app]
        engine = engines[None]
        connection = engine.connect()
        transaction = connection.begin()
        connection.raw_connection = lambda: Lent(connection.connection.driver_connection)
        engines[None] = connection
        bells.clear()
        settings.forget()
        settings.get()  # remembered, so that tests may count queries
        counted.begin()
        windows.connect("")
        try:
            yield app
        finally:
            session.remove()
            engines[None] = engine
            transaction.rollback()
            connection.close()
            bells.clear()
            tidy(simulated(app))


@pytest.fixture
def world(app):
    """Where a test is: nothing of it stays."""
    with undone(app):
        yield app


@pytest.fixture(scope="module")
def shared_world(app):
    """The same for all tests of a module, each of which undoes its own part."""
    with undone(app):
        yield app


@dataclass
class Lent:
    """The test's own connection, for who asks the driver: it must see what the test has written."""

    driver_connection: object

    def close(self):
        """It goes on."""


def simulated(app):
    """The cast's node itself, to look at behind the panel's back."""
    row, directory = app.cast.node, app.extensions["config"].data_dir
    return nodes.connect(nodes.NodeSpec(row.id, row.name, row.driver, row.uri), directory)


def tidy(node):
    """The node is outside the transaction: what a test left on it goes by hand."""
    node.clear()
    for machine in node.machines():
        node.delete(machine.id)
    for disk in node.disks("default"):
        node.delete_disk("default", disk.name)


@pytest.fixture
def node(world):
    return simulated(world)


@pytest.fixture
def short_deadline_node(world):
    """The same: calls that meet silence do not wait long, and what is broken in a test is mended after it."""
    node = simulated(world)
    before = node.options
    node.options = replace(before, deadline=0.01)
    yield node
    node.options = before
    node.clear()
    node.ping()


class Present(people.Cast):
    """The people, each of them a row of the test's session once it is asked for."""

    def __init__(self, assembled):
        self.assembled, self.tokens = assembled, dict(assembled.tokens)

    def __getattr__(self, name):
        row = getattr(self.assembled, name)
        setattr(self, name, session.get(type(row), inspect(row).identity))
        return getattr(self, name)


@pytest.fixture
def cast(world):
    return Present(world.cast)


@pytest.fixture
def as_(world, cast):
    """Calls the API as one of the cast: `as_("owner", "GET", "/api/instances")`."""

    def call(who, method, path, **options):
        headers = {**cast.headers(who), **options.pop("headers", {})}
        answer = world.test_client().open(path, method=method, headers=headers, buffered=True, **options)
        session.expire_all()
        return answer

    return call


@pytest.fixture
def later(world):
    """Lets time go on for what counts limits: `later(60)`."""
    return counted.go_on


@pytest.fixture
def unlimited(world):
    """For tests that ask more often than a token may."""
    budgets = [name for name in vars(settings.get()) if name.startswith("rate_limit_")]
    settings.update(dict.fromkeys(budgets, 10**6))


@pytest.fixture
def work(world):
    """Does the work that waits, as the workers would."""

    def do():
        work_off()
        session.expire_all()

    return do


@pytest.fixture
def queries(world, monkeypatch):
    """The SQL statements since the last `clear()`. Settings stay remembered, however slow the machine is."""
    monkeypatch.setattr(settings, "REMEMBERED", 3600)
    settings.forget()
    settings.get()
    seen = []

    def note(connection, cursor, statement, *_):
        seen.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    yield seen
    event.remove(db.engine, "before_cursor_execute", note)


class Browser(response_assertions.Client):
    """Sends what browsers send with a form of the page's own. Each request begins with an empty `g`, as in production
    (here the test's own context is around it), and the test's rows are read anew after each answer."""

    def open(self, *args, **options):
        vars(g).clear()
        answer = super().open(*args, **options)
        session.expire_all()
        return answer


@pytest.fixture
def browse(world, cast):
    """The browser of one of the cast, signed in, or of nobody: `browse("owner").get("/instances")`."""

    def opened(who=None):
        browser = Browser(world, world.response_class)
        browser.environ_base |= {"HTTP_SEC_FETCH_SITE": "same-origin", "REMOTE_ADDR": "127.0.0.1"}
        if who:
            secret = sessions.start(getattr(cast, who), ip="127.0.0.1", user_agent="test")
            session.commit()
            with browser.session_transaction() as cookie:
                cookie["_user_id"] = secret
        return browser

    return opened
