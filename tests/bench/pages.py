"""Every page of a customer with ten thousand instances and a hundred thousand tasks, and of an operator beside them.

The pages are those that links reach, one of each kind, and searches. They are requested in turn. Target: of 20
requests 19 take at most three times as long as those of the cheapest page for signed-in people, or 50 ms.
"""

import http.client
import statistics
import tempfile
from datetime import timedelta
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

from sqlalchemy import insert, select, text

from panel.app import create_app
from panel.core import clock
from panel.core.config import Config
from panel.core.db import db, generate_id, session
from panel.models import Account, AuditEntry, Event, Instance, Task
from panel.services import accounts, sessions
from tests.bench import rows
from tests.bench.microvms import time_request
from tests.support import postgres
from tests.support.link_crawler import crawl_pages

INSTANCES, TASKS, PAGES, ROUNDS, WARM_UP_ROUNDS = 10_000, 100_000, 250, 20, 1
QUICK_SIZES = {"INSTANCES": 20, "TASKS": 60, "PAGES": 5, "ROUNDS": 2, "WARM_UP_ROUNDS": 0}
MAX_RATIO, MAX_MILLISECONDS = 3, 50
SHOWN_PAGES = 20
PLANNER_SETTING = "plan_cache_mode=auto"
"""As in production. Tests force generic plans, which is faster for their few rows, and slower for many."""
SEARCHES = (
    "/search?q=machine+99",
    "/instances?search=machine+99",
    "/instances?sort_by=-name&page=50",
    "/tasks?search=machine",
    "/tasks?page=50",
    "/activity?page=50",
)
ADMIN_SEARCHES = (
    "/admin/search?q=machine+99",
    "/admin/instances?search=machine+99",
    "/admin/instances?sort_by=-name&page=50",
    "/admin/tasks?page=50",
)


def bench(report):
    with tempfile.TemporaryDirectory() as directory, postgres.run_server(PLANNER_SETTING) as address:
        for name, url in rows.list_databases(address):
            folder = Path(directory) / name
            folder.mkdir()
            config = Config(data_dir=folder, database_url=url, secret_key="bench", redis_url="redis://127.0.0.1:1")
            cookies = create_installation(config)
            with rows.PanelServer(config) as port:
                report_pages(report, name, port, cookies)


def create_installation(config):
    """Create the customer and the operator. Return their cookies."""
    rows.OWN_INSTANCES = INSTANCES
    rows.create_customer(config)
    app = create_app(config)
    with app.app_context(), rows.suppress_jobs():
        customer = session.scalars(select(Account).order_by(Account.id).limit(1)).one()
        operator = accounts.create(email="operator@example.com", operator_role="full")
        for first in range(0, TASKS, rows.BATCH_ROWS):
            add_history(customer, first, min(rows.BATCH_ROWS, TASKS - first))
        secrets = [sessions.start(account, ip="127.0.0.1", user_agent="bench") for account in (customer, operator)]
        session.execute(text("analyze"))
        session.commit()
        serializer = app.session_interface.get_signing_serializer(app)
        db.engine.dispose()
    return [f"panel={serializer.dumps({'_user_id': secret, '_permanent': True})}" for secret in secrets]


def add_history(customer, first, count):
    """Add tasks of the instances, each with an event and an entry of the audit log. One of a hundred has failed."""
    instances = session.execute(select(Instance.id, Instance.display_name, Instance.hypervisor_id)).all()
    tasks, events, entries = [], [], []
    for number in range(first, first + count):
        instance, moment = instances[number % len(instances)], clock.now() - timedelta(seconds=TASKS - number)
        failed = number % 100 == 0
        tasks.append(
            {
                "id": generate_id(),
                "kind": "instance_restart",
                "resource_type": "instance",
                "resource_id": instance.id,
                "resource_name": instance.display_name,
                "account_id": customer.id,
                "hypervisor_id": instance.hypervisor_id,
                "actor": customer.email,
                "status": "failed" if failed else "completed",
                "error": "The node does not respond." if failed else None,
                "queued_at": moment,
                "started_at": moment,
                "finished_at": moment,
            }
        )
        events.append(
            {
                "account_id": customer.id,
                "kind": "instance.updated",
                "resource_type": "instance",
                "resource_id": instance.id,
                "created_at": moment,
                "fanned_out_at": moment,
            }
        )
        entries.append(
            {
                "account_id": customer.id,
                "person_id": customer.id,
                "person": customer.email,
                "person_kind": "owner",
                "ip": "127.0.0.1",
                "action": "instances.restart",
                "object_type": "instance",
                "object_id": instance.id,
                "object_name": instance.display_name,
                "created_at": moment,
            }
        )
    for model, values in ((Task, tasks), (Event, events), (AuditEntry, entries)):
        session.execute(insert(model), values)
    session.commit()


class Browser:
    """A signed-in browser of the link crawler."""

    def __init__(self, port, cookie):
        self.connection, self.cookie = http.client.HTTPConnection("127.0.0.1", port), cookie

    def get(self, path, **_options):
        self.connection.request("GET", path, headers={"Cookie": self.cookie})
        answer = self.connection.getresponse()
        assert answer.status < 500, path
        return SimpleNamespace(status=answer.status, mimetype=answer.headers.get_content_type(), data=answer.read())

    def list_pages(self, start, searches):
        """Return the paths of all pages of the area that begins at the path `start`."""
        pages = [
            path
            for path, answer in islice(crawl_pages(self, start), PAGES)
            if answer.status == 200
            and answer.mimetype == "text/html"
            and f"{path}/".startswith(f"{start.rstrip('/')}/")
        ]
        return [*searches, *pages]


def report_pages(report, name, port, cookies):
    times = {}
    for cookie, start, searches in zip(cookies, ("/", "/admin"), (SEARCHES, ADMIN_SEARCHES), strict=True):
        browser = Browser(port, cookie)
        times |= {(path, cookie): [] for path in browser.list_pages(start, searches)}
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for round_ in range(ROUNDS + WARM_UP_ROUNDS):
        for (path, cookie), own in times.items():
            seconds = time_request(connection, path, {"Cookie": cookie})
            if round_ >= WARM_UP_ROUNDS:
                own.append(1000 * seconds)
    slow = {path: find_95th_percentile(own) for (path, _), own in times.items()}
    cheapest = min(slow.values())
    medians = sorted(((statistics.median(own), path) for (path, _), own in times.items()), reverse=True)
    for median, path in medians[:SHOWN_PAGES]:
        print(f"  {path}: {slow[path]:.1f} ms, in the middle {median:.1f} ms", flush=True)
    print(f"  {len(slow)} pages, the cheapest {cheapest:.1f} ms", flush=True)
    limit = max(MAX_RATIO * cheapest, MAX_MILLISECONDS)
    report(f"the slowest page, {name}, against the limit", max(slow.values()) / limit, 1)


def find_95th_percentile(times):
    return statistics.quantiles(times, n=20)[-1]
