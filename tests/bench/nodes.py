"""Starting a thousand machines with one command, and reconciling a node with five thousand, on both databases.

Targets: two worker processes run at least 200 starts a second, meanwhile the panel's pages take at most twice as long
as when idle (99th percentile), and reconciling 5,000 machines takes at most 5 s. The absolute rate depends on the
hardware, so two bare loops run the same starts for comparison: workers reach at least a quarter of their rate.
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
from tests.bench.console_peers import ROOT, BenchProcess
from tests.bench.site import fetch_page
from tests.support import postgres, redis_server
from tests.support.ports import find_free_port
from worker.nodes.base import Disk as Volume
from worker.nodes.base import GiB
from worker.nodes.base import Machine as Definition
from worker.sync import node_sync
from worker.tasks.machine_spec import make_seed_name

STARTED_MACHINES, RECONCILED_MACHINES, WORKERS = 1000, 5000, 2
QUICK_SIZES = {"STARTED_MACHINES": 20, "RECONCILED_MACHINES": 30, "IDLE_REQUESTS": 5}
LARGE_NODE_URI = "simulated://?cores=100000&memory_gb=1000000&storage_gb=10000000"
LIST_PATH = "/api/instances?per_page=25"
IDLE_REQUESTS, REQUEST_INTERVAL_SECONDS = 200, 0.05
"""Number of requests while idle, and the interval between requests."""


def bench(report):
    with postgres.run_server() as address:
        for name, url in rows.list_databases(address):
            directory = Path(tempfile.mkdtemp(prefix="bench"))
            with redis_server.RedisServer(directory) as redis_url:
                config = Config(data_dir=directory, database_url=url, secret_key="bench", redis_url=redis_url)
                with create_worker_app(config).app_context():
                    run(report, name, config)
                    db.engine.dispose()


def run(report, name, config):
    node, token = create_location()
    add_stopped_machines(node, 0, STARTED_MACHINES)
    measure_worker_starts(report, name, config, token)
    measure_bare_starts(report, name, config, node)
    add_stopped_machines(node, STARTED_MACHINES, RECONCILED_MACHINES - STARTED_MACHINES)
    measure_reconcile(report, name, node)


def create_location():
    db.create_all()
    owner = accounts.create(email="bench@example.com", password="a long bench password")
    group = hypervisors.create_group(name="bench")
    node = hypervisors.create(
        group, name="node-1", driver="simulated", uri=LARGE_NODE_URI, storage_path="/srv/disks", max_tasks=64
    )
    session.commit()
    node_sync.probe(node.id)
    plans = catalog.create_plan_group(name="bench", hypervisor_groups=[group])
    catalog.create_plan(plans, name="S", cpu_cores=1, ram=512, storage=10, bandwidth=1000, price=4, ipv6=0)
    subnets.create(group, name="v6", cidr="fd99::/64")
    settings.update({"rate_limit_requests": 10**6})
    token = tokens.issue("user", name="bench", account=owner, scopes=["instances:read"])[1]
    session.commit()
    return node, token


def add_stopped_machines(node, first, count):
    """Add stopped machines, as rows and on the node."""
    plan, subnet = session.scalars(select(Plan)).one(), session.scalars(select(Subnet)).one()
    rows.add_instances(accounts.find_by_email("bench@example.com"), node, plan, subnet, first, count)
    session.execute(update(Instance).values(power="off"))
    session.commit()
    query = select(Instance.id, Instance.name, Disk.name).join_from(Instance, Disk)
    machines = session.execute(query.order_by(Instance.name).offset(first)).all()
    driver = node_sync.connect_node(node.id).node
    for ident, name, disk in machines:
        first_disk = Volume("default", disk, GiB)
        driver.create_disk(first_disk)
        driver.create_disk(Volume("default", make_seed_name(disk), 1))
        driver.define(Definition(ident, name, 1, 512, (first_disk,)))
    session.remove()


def measure_worker_starts(report, name, config, token):
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
        warm_up_workers()
        idle = measure_requests(port, token, lambda times: len(times) == IDLE_REQUESTS)
        before = sum_cpu_seconds(one, other)
        rate, busy = measure_starts(port, token)
        cpu_seconds = (sum_cpu_seconds(one, other) - before) / STARTED_MACHINES
    print(
        f"  {name}: {1000 * cpu_seconds:.1f} ms of CPU a start; "
        f"the list took {format_times(idle)}, then {format_times(busy)}"
    )
    report(f"starts a second with two workers, {name}", rate, minimum=200)
    report(
        f"a list of instances meanwhile, {name}, against idle, 99th",
        find_99th_percentile(busy) / find_99th_percentile(idle),
        2,
    )
    start_rates[name] = rate


start_rates = {}
"""Measured starts a second by database."""


def sum_cpu_seconds(*parts):
    times = [psutil.Process(part.process.pid).cpu_times() for part in parts]
    return sum(cpu.user + cpu.system for cpu in times)


def format_times(times):
    median, slow = 1000 * statistics.median(times), 1000 * find_99th_percentile(times)
    return f"{median:.0f} ms (99th {slow:.0f} ms, {len(times)} requests)"


def measure_bare_starts(report, name, config, node):
    """Measure the same starts with loops that do nothing else."""
    power_all_off(node)
    for instance in session.scalars(select(Instance).order_by(Instance.id)).all():
        instances.run_power_action(instance, "start", actor="bench")
    session.commit()
    command = [sys.executable, "-m", "tests.bench.minimal_worker", config.data_dir, config.database_url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    loops = [subprocess.Popen([*map(str, command), str(part), str(WORKERS)], **pipes) for part in range(WORKERS)]
    assert [loop.stdout.readline() for loop in loops] == ["ready\n"] * WORKERS
    for loop in loops:
        loop.stdin.write("\n")
        loop.stdin.flush()
    seconds = max(float(loop.communicate()[0]) for loop in loops)
    assert session.scalar(select(func.count()).where(Instance.power == "on")) == STARTED_MACHINES
    session.commit()
    print(f"  {name}: two bare loops start {STARTED_MACHINES / seconds:.0f} a second")
    report(
        f"workers, as a part of the bare loops, {name}", start_rates[name] * seconds / STARTED_MACHINES, minimum=0.25
    )


def power_all_off(node):
    session.execute(update(Instance).values(power="off", power_reported_at=None))
    session.commit()
    with node_sync.connect_node(node.id).node.state.transaction() as state:
        state.execute("UPDATE machines SET power = 'off'")


def is_answering(port):
    try:
        return bool(fetch_page(port))
    except OSError:
        return False


def warm_up_workers():
    """Run some tasks, so that both workers have imported modules and opened connections."""
    for instance in session.scalars(select(Instance).limit(4)).all():
        instances.run_power_action(instance, "start", actor="bench")
    session.commit()
    wait_for_tasks(4)


def wait_for_tasks(count):
    done = select(func.count()).where(Task.status == "completed")
    while True:
        session.commit()
        begin_read_only()
        if session.scalar(done) >= count:
            return session.commit()
        session.commit()
        time.sleep(0.05)


def measure_starts(port, token):
    """Return starts a second until all machines run, and response times of the list meanwhile."""
    stopped = session.scalars(select(Instance).where(Instance.power == "off").limit(STARTED_MACHINES)).all()
    times, done = [], threading.Event()
    reader = threading.Thread(target=lambda: times.extend(measure_requests(port, token, lambda _: done.is_set())))
    for instance in stopped:
        instances.run_power_action(instance, "start", actor="bench")
    start = time.perf_counter()
    session.commit()
    reader.start()
    wait_for_tasks(4 + len(stopped))
    seconds = time.perf_counter() - start
    done.set()
    reader.join()
    return len(stopped) / seconds, times


def measure_requests(port, token, is_done):
    """Return response times in seconds. Pauses between requests, so that they cause little load."""
    times = []
    while not is_done(times):
        start = time.perf_counter()
        fetch_page(port, LIST_PATH, token)
        times.append(time.perf_counter() - start)
        time.sleep(max(0.0, REQUEST_INTERVAL_SECONDS - times[-1]))
    return times


def find_99th_percentile(times):
    return statistics.quantiles(times, n=100)[98]


def measure_reconcile(report, name, node):
    """Measure the worst case, in which every machine differs from its row, and the case without changes."""
    power_all_off(node)
    driver = node_sync.connect_node(node.id).node
    for machine in driver.machines():
        driver.start(machine.id)
    start = time.perf_counter()
    node_sync.reconcile(node.id)
    seconds = time.perf_counter() - start
    report(f"a look at {RECONCILED_MACHINES} machines that all changed, {name}", seconds, 5, unit=" s")
    start = time.perf_counter()
    node_sync.reconcile(node.id)
    seconds = time.perf_counter() - start
    report(f"a look at {RECONCILED_MACHINES} machines that did not change, {name}", seconds, 5, unit=" s")
