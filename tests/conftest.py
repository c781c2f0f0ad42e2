"""The fixtures of all tests. The application is built once; each test runs in a transaction that is rolled back.

`commit()` and on_commit calls behave as in production, because the session works in savepoints of that transaction.
Set TEST_DATABASE_URL to run the same tests on PostgreSQL.
"""

import email
import email.policy
import gc
import os
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from flask import g
from sqlalchemy import create_engine, event, inspect, make_url, text
from sqlalchemy.engine import Engine

from panel.app import create_app
from panel.bootstrap import create_context
from panel.core import context, jobs, live_changes
from panel.core.config import Config
from panel.core.db import db, session
from panel.services import accounts, brands, sessions, settings
from panel.services.metrics import hosts
from tests.support import cast as people
from tests.support import postgres, response_assertions
from tests.support.lazy_savepoints import delay_savepoints
from tests.support.password_hashing import FAST_HASHER
from tests.support.rate_limit_clock import connect_rate_limits, fake_clock
from tests.support.simulated_node import clear_node, connect_simulated_node
from tests.support.task_queue import queue_or_run, queued_calls, run_queued_calls
from tests.support.template_cache import create_template_cache
from worker.engine import main  # noqa: F401  (registers the task handlers)

collect_ignore = ["support/skeleton"]
pytest_plugins = [
    "tests.support.local_hypervisor",
    "tests.support.installation",
    "tests.support.file_server",
    "tests.support.rclone_remotes",
    "tests.support.s3_server",
    "tests.support.programs",
    "tests.support.slow_proofs",
    "tests.support.database_lanes",
]

for name in [name for name in os.environ if name.startswith("PANEL_")]:
    del os.environ[name]

TEST_DATABASE_URL = os.environ.get(postgres.URL_VARIABLE, "")
LANE_MARKERS = {"guest", "debian", "browser", "processes"}
NODE_TESTS = Path(__file__).parent / "nodes"
"""Their lane collects this folder."""

GARBAGE_THRESHOLDS = 20_000, 20, 20

context.set_current(create_context(Config(secret_key="test", redis_url="redis://")))  # for tests without `app`

accounts.hasher, accounts.DUMMY_PASSWORD_HASH = FAST_HASHER, FAST_HASHER.hash("nobody has this password")


gc.disable()
"""Until all tests are collected: modules and test items live until the end of the run and need not be traversed."""


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Enable the garbage collector, with thresholds for the many objects that a test creates."""
    try:
        return (yield)
    finally:
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        gc.freeze()
        gc.enable()


def pytest_sessionfinish():
    """Let the collections with which pytest ends traverse nothing."""
    gc.freeze()


def pytest_collection_modifyitems(items):
    """Check that lanes find marked tests."""
    for path, marker in sorted({(item.path, mark.name) for item in items for mark in item.iter_markers()}):
        if marker in LANE_MARKERS and NODE_TESTS not in path.parents and f"mark.{marker}" not in path.read_text():
            raise pytest.UsageError(f"Write pytest.mark.{marker} in {path}: lanes of the Makefile search for it.")


@pytest.fixture(scope="session")
def database_url():
    """The URL of the database under test, of which each pytest-xdist worker has its own; empty for SQLite files."""
    if not TEST_DATABASE_URL:
        yield ""
        return
    with postgres.create_database(TEST_DATABASE_URL) as url:
        yield url


@pytest.fixture(scope="session")
def config(tmp_path_factory, database_url):
    return Config(
        data_dir=tmp_path_factory.mktemp("data"), database_url=database_url, secret_key="test", redis_url="redis://"
    )


@pytest.fixture(autouse=True)
def _process_context():
    """Restore the process context after a test that created another application."""
    original = context.current()
    yield
    context.set_current(original)


@pytest.fixture
def change_config(monkeypatch):
    """Return a function that changes the configuration until the end of the test: `change_config(mail_url="")`."""

    def change_settings(**settings):
        process = context.current()
        monkeypatch.setattr(process, "config", replace(process.config, **settings))
        brands.invalidate()  # their URLs depend on the public address

    return change_settings


@pytest.fixture(scope="session")
def app(config):
    """The application, with a database that has only the cast."""
    jobs.enqueue_call = queue_or_run
    live_changes.publish = lambda changes: None
    app = create_app(config)
    connect_rate_limits("")
    app.context = context.current()
    app.testing = True
    app.test_client_class = response_assertions.CheckingClient
    app.jinja_env.bytecode_cache = create_template_cache()
    with app.app_context():
        delay_savepoints(db.engine)
        db.drop_all()
        db.create_all()
        app.cast = people.create_cast(Path(config.data_dir))
        run_queued_calls()
    gc.freeze()
    yield app
    with app.app_context():
        session.remove()
        db.engine.dispose()


@event.listens_for(Engine, "connect")
def prepare_all_statements(connection, _):
    """Let PostgreSQL's driver keep every prepared statement: all tests together execute thousands."""
    if hasattr(connection, "prepared_max"):
        connection.prepared_max = None


@contextmanager
def rollback_context(app):
    """Enter an application context whose transaction is rolled back at the end."""
    context.set_current(app.context)  # a module-scoped application may have set another one
    with app.app_context():
        engines = db.engines
        engine = engines[None]
        connection = engine.connect()
        transaction = connection.begin()
        connection.connect = lambda: BorrowedConnection(connection)
        engines[None] = connection
        queued_calls.clear()
        for cached in (settings, brands):
            cached.invalidate()
        settings.get()  # cached, so that tests can count queries
        brands.get_all()
        fake_clock.reset()
        connect_rate_limits("")
        try:
            yield app
        finally:
            session.remove()
            engines[None] = engine
            transaction.rollback()
            connection.close()
            queued_calls.clear()
            clear_node(connect_simulated_node(app))


@pytest.fixture
def rolled_back_app(app):
    """The application in a transaction that is rolled back after the test."""
    with rollback_context(app):
        yield app


@pytest.fixture(scope="module")
def shared_rolled_back_app(app):
    """The same for all tests of a module. Each test reverts its own changes."""
    with rollback_context(app):
        yield app


@dataclass
class BorrowedConnection:
    """Stands in for a second connection of the pool, because only the test's connection sees its uncommitted rows."""

    connection: object

    def execution_options(self, **_):
        """Return the test's connection without changing its options."""
        return nullcontext(self.connection)


@pytest.fixture
def node(rolled_back_app):
    return connect_simulated_node(rolled_back_app)


@pytest.fixture
def short_deadline_node(rolled_back_app):
    """The node with a deadline of 10 ms for calls that get no answer. Faults are removed after the test."""
    node = connect_simulated_node(rolled_back_app)
    before = node.options
    node.options = replace(before, deadline=0.01)
    yield node
    node.options = before
    node.clear()
    node.ping()


class CastProxy(people.Cast):
    """The cast, whose rows are loaded into the test's session at first use."""

    def __init__(self, shared_cast):
        self.shared_cast, self.tokens = shared_cast, dict(shared_cast.tokens)

    def __getattr__(self, name):
        row = getattr(self.shared_cast, name)
        setattr(self, name, session.get(type(row), inspect(row).identity))
        return getattr(self, name)


@pytest.fixture
def cast(rolled_back_app):
    return CastProxy(rolled_back_app.cast)


@pytest.fixture
def api_as(rolled_back_app, cast):
    """Return a function that calls the API as one of the cast: `api_as("owner", "GET", "/api/instances")`."""

    def call(caller, method, path, **options):
        headers = {**cast.headers(caller), **options.pop("headers", {})}
        answer = rolled_back_app.test_client().open(path, method=method, headers=headers, buffered=True, **options)
        session.expire_all()
        return answer

    return call


@pytest.fixture
def advance_time(rolled_back_app):
    """Return a function that advances the clock of the rate limits: `advance_time(60)`."""
    return fake_clock.advance


@pytest.fixture
def unlimited_rates(rolled_back_app):
    """Raise the rate limits, for tests with more requests than a token may send."""
    budgets = [name for name in vars(settings.get()) if name.startswith("rate_limit_")]
    settings.update(dict.fromkeys(budgets, 10**6))
    session.commit()  # a refused request rolls back what the test has not committed


@pytest.fixture
def run_tasks(rolled_back_app):
    """Return a function that runs queued tasks and calls, as the workers would."""

    def run_all():
        run_queued_calls()
        session.expire_all()

    return run_all


@pytest.fixture
def sent_mails(rolled_back_app, run_tasks):
    """The mails of this test, newest last: `sent_mails()` runs queued tasks and reads the files."""
    folder = rolled_back_app.extensions["config"].data_dir / "mail"
    before = set(folder.glob("*.eml"))

    def read_mails(to=None):
        run_tasks()
        new = sorted(set(folder.glob("*.eml")) - before)
        mails = [email.message_from_bytes(path.read_bytes(), policy=email.policy.default) for path in new]
        return [mail for mail in mails if to is None or mail["To"] == to]

    return read_mails


@pytest.fixture
def queries(rolled_back_app, monkeypatch):
    """The SQL statements since the last `clear()`. Settings and curves stay cached, also on a slow machine."""
    monkeypatch.setattr(settings, "SETTINGS_CACHE_SECONDS", 3600)
    monkeypatch.setattr(hosts, "CURVES_CACHE_SECONDS", 3600)
    monkeypatch.setattr(context.current(), "cached_platform_curves", (0.0, None))
    settings.invalidate()
    settings.get()
    brands.invalidate()
    brands.get_all()
    statements = []

    def record(connection, cursor, statement, *_):
        statements.append(statement)

    event.listen(db.engine, "before_cursor_execute", record)
    yield statements
    event.remove(db.engine, "before_cursor_execute", record)


class Browser(response_assertions.CheckingClient):
    """A client that sends a browser's headers. Each request starts with an empty `g`, as in production (the test's own
    context is around it), and the test's rows are reloaded after each answer."""

    def open(self, *args, **options):
        vars(g).clear()
        answer = super().open(*args, **options)
        session.expire_all()
        return answer


@pytest.fixture
def browser_as(rolled_back_app, cast):
    """Return a function that opens a browser, signed in as one of the cast or not: `browser_as("owner").get("/")`."""

    def open_browser(caller=None):
        browser = Browser(rolled_back_app, rolled_back_app.response_class)
        browser.environ_base |= {"HTTP_SEC_FETCH_SITE": "same-origin", "REMOTE_ADDR": "127.0.0.1"}
        if caller:
            secret = sessions.start(getattr(cast, caller), ip="127.0.0.1", user_agent="test")
            session.commit()
            with browser.session_transaction() as cookie:
                cookie["_user_id"] = secret
        return browser

    return open_browser


@pytest.fixture
def empty_database(tmp_path, database_url):
    """The URL of a database without tables."""
    if not database_url:
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    engine = create_engine(database_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("create database migrations"))
    yield make_url(database_url).set(database="migrations").render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text("drop database migrations with (force)"))
    engine.dispose()
