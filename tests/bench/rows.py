"""The list of a hundred instances, against a bare handler that checks a token and answers the same rows.

Both are served by the same kind of server on loopback and requested in turn, so that other load affects both equally.
Targets: the median is at most 1.8 times that of the bare handler, and with a million rows of other accounts at most 1.3
times that without them.
"""

import contextlib
import http.client
import json
import os
import socket
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

from sqlalchemy import insert, text

from panel.app import create_app
from panel.core import jobs
from panel.core.config import Config
from panel.core.db import db, generate_id, session
from panel.models import Address, Disk, Instance, Interface, Subnet
from panel.services import accounts, catalog, hypervisors, settings, subnets, tokens
from tests.support import postgres
from tests.support.panel_commands import start_script

OWN_INSTANCES, OTHER_INSTANCES, ROUNDS = 1000, 1_000_000, 300
BATCH_ROWS = 20_000
DATABASES = ("SQLite", "PostgreSQL")
QUICK_SIZES = {
    "OWN_INSTANCES": 100,
    "OTHER_INSTANCES": 200,
    "ROUNDS": 3,
    "BATCH_ROWS": 100,
    "DATABASES": ("PostgreSQL",),
}
LIST_PATH = "/api/instances?per_page=100"
SERVER_SCRIPT = "import sys; from tests.bench import serve; serve.main(*sys.argv[1:])"


def bench(report):
    with tempfile.TemporaryDirectory() as directory, postgres.run_server() as address:
        for name, url in list_databases(address):
            config = Config(
                data_dir=Path(directory) / name, database_url=url, secret_key="bench", redis_url="redis://127.0.0.1:1"
            )
            config.data_dir.mkdir()
            token = create_customer(config)
            rows = fetch_first_page(config, token)
            bare = create_bare_database(Path(directory) / name, rows, token)
            with PanelServer(config) as panel, BareServer(bare) as plain:
                panel_values, plain_values = measure_in_turn(panel, plain, token)
                report(f"list of 100, {name}, against a bare handler", panel_values / plain_values, 1.8)
                small = panel_values
            add_others(config)
            with PanelServer(config) as panel, BareServer(bare) as plain:
                panel_values, again = measure_in_turn(panel, plain, token)
                report(
                    f"list of 100, {name}, a million others against none",
                    panel_values / small * plain_values / again,
                    1.3,
                )


def list_databases(address):
    """Return (name, URL) of the databases to measure, with the PostgreSQL server at `address`."""
    urls = {"SQLite": "", "PostgreSQL": address}
    return [(name, urls[name]) for name in DATABASES]


@contextlib.contextmanager
def suppress_jobs():
    """Queue nothing until the block ends. Another benchmark of the same process needs its jobs."""
    with mock.patch.object(jobs, "enqueue_call"):
        yield


def create_customer(config):
    """Create a customer with a thousand instances. Return the customer's token."""
    app = create_app(config)
    with app.app_context(), suppress_jobs():
        db.create_all()
        account = accounts.create(email="bench@example.com")
        other = accounts.create(email="others@example.com")
        group = hypervisors.create_group(name="bench", display_name="Bench")
        node = hypervisors.create(group, name="n", driver="simulated", uri="simulated://", storage_path="/x")
        plans = catalog.create_plan_group(name="bench", hypervisor_groups=[group])
        plan = catalog.create_plan(plans, name="S", cpu_cores=1, ram=512, storage=10)
        subnet = subnets.create(group, name="v6", cidr="fd99::/64")
        value = tokens.issue("user", name="bench", account=account, scopes=["instances:read"])[1]
        settings.update({"rate_limit_requests": 10**6})
        session.flush()
        add_instances(account, node, plan, subnet, 0, OWN_INSTANCES)
        config.data_dir.joinpath("others").write_text(json.dumps([other.id, node.id, plan.id, subnet.id]))
        session.commit()
        db.engine.dispose()
    return value


def add_instances(account, node, plan, subnet, first, count):
    """Add instances with a disk, an interface and two addresses each."""
    rows_by_model = {Instance: [], Interface: [], Disk: [], Address: []}
    for number in range(first, first + count):
        instance, interface = generate_id(), generate_id()
        rows_by_model[Instance].append(
            {
                "id": instance,
                "name": f"h{number:08}",
                "display_name": f"Machine {number}",
                "hostname": f"m{number}.example.com",
                "account_id": account if isinstance(account, str) else account.id,
                "group_id": node.group_id,
                "hypervisor_id": node.id,
                "plan_id": plan.id,
                "cpu_cores": 1,
                "ram": 512,
                "storage": 10,
                "deployed": True,
                "power": "on",
                "ipv4": f"{number}.v4",
                "ipv6": f"{number}::",
            }
        )
        rows_by_model[Interface].append({"id": interface, "instance_id": instance, "mac": f"m{number}"})
        rows_by_model[Disk].append(
            {
                "id": generate_id(),
                "instance_id": instance,
                "storage_id": node.storages[0].id,
                "name": f"d{number}",
                "size": 10,
            }
        )
        for family, ip in ((4, f"{number}.v4"), (6, f"{number}::")):
            rows_by_model[Address].append(
                {
                    "id": generate_id(),
                    "subnet_id": subnet.id,
                    "ip": ip,
                    "sort_key": f"{family}{number:09}",
                    "interface_id": interface,
                }
            )
    for model, rows in rows_by_model.items():
        session.execute(insert(model), rows)


def add_others(config):
    """Add a million instances of another account."""
    app = create_app(config)
    with app.app_context():
        other, node_id, plan_id, subnet_id = json.loads(config.data_dir.joinpath("others").read_text())
        from panel.models import Hypervisor, Plan

        node, plan = session.get(Hypervisor, node_id), session.get(Plan, plan_id)
        subnet = session.get(Subnet, subnet_id)
        for first in range(OWN_INSTANCES, OWN_INSTANCES + OTHER_INSTANCES, BATCH_ROWS):
            add_instances(other, node, plan, subnet, first, BATCH_ROWS)
            session.commit()
        session.execute(text("analyze"))
        session.commit()
        db.engine.dispose()


def fetch_first_page(config, token):
    app = create_app(config)
    answer = app.test_client().get(LIST_PATH, headers={"Authorization": f"Bearer {token}"})
    with app.app_context():
        db.engine.dispose()
    assert len(answer.json["data"]) == 100, answer.text
    return answer.json["data"]


def create_bare_database(directory, rows, token):
    """Write the rows into one plain table, and the hash of the token into another. Return the path."""
    path = directory / "bare.db"
    with sqlite3.connect(path) as connection:
        columns = list(rows[0])
        connection.execute("create table token (hash text primary key)")
        connection.execute("insert into token values (?)", [tokens.hash_secret(token)])
        connection.execute(f"create table row (number integer primary key, {', '.join(columns)})")
        for row in rows:
            values = [json.dumps(value) if isinstance(value, (dict, list)) else value for value in row.values()]
            connection.execute(
                f"insert into row ({', '.join(columns)}) values ({', '.join('?' * len(columns))})", values
            )
    return path


class PanelServer:
    """A web server with one process of four threads."""

    target = "tests.bench.apps:create_panel()"

    def __init__(self, config):
        self.environment = {
            "PANEL_DATA_DIR": str(config.data_dir),
            "PANEL_DATABASE_URL": config.database_url,
            "PANEL_SECRET_KEY": config.secret_key,
            "PANEL_REDIS_URL": config.redis_url,
        }

    def __enter__(self):
        with socket.socket() as free_socket:
            free_socket.bind(("127.0.0.1", 0))
            self.port = free_socket.getsockname()[1]
        environment = {**os.environ, **self.environment}
        self.process = start_script(SERVER_SCRIPT, (str(self.port), self.target), environment, Path(os.devnull))
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self.port
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError("The server did not start.") from None
                time.sleep(0.1)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class BareServer(PanelServer):
    target = "tests.bench.apps:create_bare()"

    def __init__(self, path):
        self.environment = {"BARE_DATABASE": str(path)}


def measure_in_turn(panel, plain, token):
    """Request both alternately on persistent connections. Return their median response times."""
    connections = [http.client.HTTPConnection("127.0.0.1", port) for port in (panel, plain)]
    times_by_server = ([], [])
    for round_ in range(ROUNDS + 20):
        for connection, times in zip(connections, times_by_server, strict=True):
            start = time.perf_counter()
            connection.request("GET", LIST_PATH, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            body = answer.read()
            if round_ >= 20:
                times.append(time.perf_counter() - start)
            assert answer.status == 200, body
            assert len(body) > 50_000
    return tuple(statistics.median(times) for times in times_by_server)
