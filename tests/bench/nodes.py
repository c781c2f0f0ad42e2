"""A thousand machines started by one command, and a look at a node with five thousand, on both databases.

Targets: two worker processes carry at least 200 starts a second, the panel's pages meanwhile take at most twice as long
as when nobody works (99th percentile), and a look at 5,000 machines takes at most 5 s. How many starts a second there
are depends on the machine, so two bare loops carry as many in the same run: workers do at least a quarter of what those
do.
"""

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from sqlalchemy import func, select, update

from panel.bootstrap import create_worker_app
from panel.core.config import Config
from panel.core.db import begin_read_only, db, session
from panel.models import Disk, Instance, Plan, Subnet, Task
from panel.services import accounts, catalog, hypervisors, instances, settings, subnets, tokens
from tests.bench import rows
from tests.bench.site import fetch_page
from tests.bench.stage import ROOT, BenchProcess
from tests.processes.conftest import find_free_port
from tests.support import postgres, redis_server
from worker.nodes.base import Disk as Volume
from worker.nodes.base import GiB
from worker.nodes.base import Machine as Definition
from worker.sync import node_sync as looks
from worker.tasks.machine_spec import seed_name_for

STARTED, LOOKED_AT, WORKERS = 1000, 5000, 2
QUICK = {"STARTED": 20, "LOOKED_AT": 30, "ASKED": 5}
LARGE = "simulated://?cores=100000&memory_gb=1000000&storage_gb=10000000"
PATH = "/api/instances?per_page=25"
ASKED, PACE = 200, 0.05
"""Requests while nobody works, and the seconds from one to the next, then and while machines start."""


def bench(report):
    with postgres.run_server() as address:
        for name, url in rows.databases(address):
            directory = Path(tempfile.mkdtemp(prefix="bench"))
            with redis_server.RedisServer(directory) as redis_url:
                config = Config(data_dir=directory, database_url=url, secret_key="bench", redis_url=redis_url)
                with create_worker_app(config).app_context():
                    run(report, name, config)
                    db.engine.dispose()


def run(report, name, config):
    node, token = create_location()
    fill(node, 0, STARTED)
    starts(report, name, config, token)
    bare(report, name, config, node)
    fill(node, STARTED, LOOKED_AT - STARTED)
    look(report, name, node)


def create_location():
    db.create_all()
    owner = accounts.create(email="bench@example.com", password="a long bench password")
    group = hypervisors.create_group(name="bench")
    node = hypervisors.create(
        group, name="node-1", driver="simulated", uri=LARGE, storage_path="/srv/disks", max_tasks=64
    )
    session.commit()
    looks.probe(node.id)
    plans = catalog.create_plan_group(name="bench", hypervisor_groups=[group])
    catalog.create_plan(plans, name="S", cpu_cores=1, ram=512, storage=10, bandwidth=1000, price=4, ipv6=0)
    subnets.create(group, name="v6", cidr="fd99::/64")
    settings.update({"rate_limit_requests": 10**6})
    token = tokens.issue("user", name="bench", account=owner, scopes=["instances:read"])[1]
    session.commit()
    return node, token


def fill(node, first, count):
    """So many machines more, which are off: rows, and the same on the node."""
    plan, subnet = session.scalars(select(Plan)).one(), session.scalars(select(Subnet)).one()
    rows.add_instances(accounts.find_by_email("bench@example.com"), node, plan, subnet, first, count)
    session.execute(update(Instance).values(power="off"))
    session.commit()
    found = select(Instance.id, Instance.name, Disk.name).join_from(Instance, Disk)
    made = session.execute(found.order_by(Instance.name).offset(first)).all()
    real = looks.connect_node(node.id).node
    for ident, name, disk in made:
        first_disk = Volume("default", disk, GiB)
        real.create_disk(first_disk)
        real.create_disk(Volume("default", seed_name_for(disk), 1))
        real.define(Definition(ident, name, 1, 512, (first_disk,)))
    session.remove()


def starts(report, name, config, token):
    environment = {
        "PANEL_DATA_DIR": str(config.data_dir),
        "PANEL_DATABASE_URL": config.database_url,
        "PANEL_SECRET_KEY": config.secret_key,
        "PANEL_REDIS_URL": config.redis_url,
        "PANEL_BIND": f"127.0.0.1:{find_free_port()}",
    }
    port = int(environment["PANEL_BIND"].rpartition(":")[2])
    worker = lambda: BenchProcess("worker", module="panel.cli", ready=lambda: True, **environment)  # noqa: E731
    web = BenchProcess("web", module="panel.cli", ready=lambda: is_answering(port), **environment)
    with web, worker() as one, worker() as other:
        warm_up()
        idle = measure_requests(port, token, lambda times: len(times) == ASKED)
        before = processor(one, other)
        rate, busy = measure_starts(port, token)
        spent = (processor(one, other) - before) / STARTED
    print(
        f"  {name}: {1000 * spent:.1f} ms of CPU a start; the list took {format_times(idle)}, then {format_times(busy)}"
    )
    report(f"starts a second with two workers, {name}", rate, minimum=200)
    report(f"a list of instances meanwhile, {name}, against idle, 99th", percentile(busy) / percentile(idle), 2)
    rates[name] = rate


rates = {}
"""Starts a second, by database."""


def processor(*parts):
    times = [psutil.Process(part.process.pid).cpu_times() for part in parts]
    return sum(each.user + each.system for each in times)


def format_times(times):
    return f"{1000 * statistics.median(times):.0f} ms (99th {1000 * percentile(times):.0f} ms, {len(times)} asked)"


def bare(report, name, config, node):
    """The same starts, by loops that do nothing else."""
    all_off(node)
    for instance in session.scalars(select(Instance).order_by(Instance.id)).all():
        instances.run_power_action(instance, "start", actor="bench")
    session.commit()
    words = [sys.executable, "-m", "tests.bench.bare", config.data_dir, config.database_url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    loops = [subprocess.Popen([*map(str, words), str(part), str(WORKERS)], **pipes) for part in range(WORKERS)]
    assert [loop.stdout.readline() for loop in loops] == ["ready\n"] * WORKERS
    for loop in loops:
        loop.stdin.write("\n")
        loop.stdin.flush()
    seconds = max(float(loop.communicate()[0]) for loop in loops)
    assert session.scalar(select(func.count()).where(Instance.power == "on")) == STARTED
    session.commit()
    print(f"  {name}: two bare loops start {STARTED / seconds:.0f} a second")
    report(f"workers, as a part of the bare loops, {name}", rates[name] * seconds / STARTED, minimum=0.25)


def all_off(node):
    session.execute(update(Instance).values(power="off", power_reported_at=None))
    session.commit()
    with looks.connect_node(node.id).node.state.transaction() as state:
        state.execute("UPDATE machines SET power = 'off'")


def is_answering(port):
    try:
        return bool(fetch_page(port))
    except OSError:
        return False


def warm_up():
    """One task each, so that both workers have imported and connected."""
    for instance in session.scalars(select(Instance).limit(4)).all():
        instances.run_power_action(instance, "start", actor="bench")
    session.commit()
    count_ended(4)


def count_ended(count):
    done = select(func.count()).where(Task.status == "completed")
    while True:
        session.commit()
        begin_read_only()
        if session.scalar(done) >= count:
            return session.commit()
        session.commit()
        time.sleep(0.05)


def measure_starts(port, token):
    """Starts a second until every machine is on, and what the list took meanwhile."""
    found = session.scalars(select(Instance).where(Instance.power == "off").limit(STARTED)).all()
    taken, over = [], threading.Event()
    reader = threading.Thread(target=lambda: taken.extend(measure_requests(port, token, lambda _: over.is_set())))
    for instance in found:
        instances.run_power_action(instance, "start", actor="bench")
    begun = time.perf_counter()
    session.commit()
    reader.start()
    count_ended(4 + len(found))
    seconds = time.perf_counter() - begun
    over.set()
    reader.join()
    return len(found) / seconds, taken


def measure_requests(port, token, enough):
    """Seconds that requests took, at a pace that leaves the machine to others."""
    times = []
    while not enough(times):
        begun = time.perf_counter()
        fetch_page(port, PATH, token)
        times.append(time.perf_counter() - begun)
        time.sleep(max(0.0, PACE - times[-1]))
    return times


def percentile(times):
    return statistics.quantiles(times, n=100)[98]


def look(report, name, node):
    """Every machine differs from its row: the worst there can be."""
    all_off(node)
    real = looks.connect_node(node.id).node
    for machine in real.machines():
        real.start(machine.id)
    begun = time.perf_counter()
    looks.reconcile(node.id)
    seconds = time.perf_counter() - begun
    report(f"a look at {LOOKED_AT} machines that all changed, {name}", seconds, 5, unit=" s")
    begun = time.perf_counter()
    looks.reconcile(node.id)
    seconds = time.perf_counter() - begun
    report(f"a look at {LOOKED_AT} machines that did not change, {name}", seconds, 5, unit=" s")
