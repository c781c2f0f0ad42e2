"""A thousand machines started by one command, and a look at a node with five thousand.

Targets: two worker processes carry at least 200 starts a second, the panel's pages meanwhile take at most twice as long
as when nobody works (99th percentile), and a look at 5,000 machines takes at most 5 s.
"""

import statistics
import tempfile
import threading
import time
from pathlib import Path

from sqlalchemy import func, select, update

from panel import jobs
from panel.config import Config
from panel.db import bare_app, db, session
from panel.models import Instance, Plan, Task
from panel.services import accounts, catalog, hypervisors, instances, settings, subnets, tokens
from tests import embedded
from tests.bench.site import fetch
from tests.bench.stage import Part
from tests.processes.conftest import free_port
from worker import hypervisors as looks
from worker.nodes.base import Disk, GiB
from worker.nodes.base import Machine as Definition

STARTED, LOOKED_AT = 1000, 5000
LARGE = "simulated://?cores=100000&memory_gb=1000000&storage_gb=10000000"
PATH = "/api/instances?per_page=25"


def bench(report):
    directory = Path(tempfile.mkdtemp(prefix="bench"))
    with embedded.Redis(directory) as redis_url:
        config = Config(data_dir=directory, secret_key="bench", redis_url=redis_url)
        app = bare_app(config)
        jobs.connect(redis_url)
        looks.data_dir = directory
        with app.app_context():
            node, token = furnish()
            fill(node, STARTED)
            starts(report, app, config, token)
            fill(node, LOOKED_AT - STARTED)
            look(report, node)


def furnish():
    db.create_all()
    owner = accounts.create(email="bench@example.com", password="a long bench password")
    group = hypervisors.create_group(name="bench")
    node = hypervisors.create(
        group, name="node-1", driver="simulated", uri=LARGE, storage_path="/srv/disks", max_tasks=64
    )
    session.commit()
    looks.check(node.id)
    plans = catalog.create_plan_group(name="bench", hypervisor_groups=[group])
    catalog.create_plan(plans, name="S", cpu_cores=1, ram=512, storage=10, bandwidth=1000, price=4, ipv6=0)
    subnets.create(group, name="v4", cidr="10.0.0.0/18", gateway="10.0.0.1")
    settings.update({"rate_limit_requests": 10**6})
    token = tokens.issue("user", name="bench", account=owner, scopes=["instances:read"])[1]
    session.commit()
    return node, token


def fill(node, count):
    """So many machines more, which are off: rows, and the same on the node."""
    owner, plan = accounts.by_email("bench@example.com"), session.scalars(select(Plan)).one()
    made = [instances.create(owner, location_id=node.group_id, plan_id=plan.id, actor="bench") for _ in range(count)]
    session.execute(update(Instance).values(deployed=True))
    session.commit()
    real = looks.node_of(node.id).node
    for instance in made:
        disk = Disk("default", instance.disks[0].name, GiB)
        real.create_disk(disk)
        real.create_disk(Disk("default", f"{instance.name}-seed.iso", 1))
        real.define(Definition(instance.id, instance.name, 1, 512, (disk,)))
    session.commit()
    session.remove()


def starts(report, app, config, token):
    environment = {
        "PANEL_DATA_DIR": str(config.data_dir),
        "PANEL_SECRET_KEY": config.secret_key,
        "PANEL_REDIS_URL": config.redis_url,
        "PANEL_BIND": f"127.0.0.1:{free_port()}",
    }
    port = int(environment["PANEL_BIND"].rpartition(":")[2])
    worker = lambda: Part("worker", module="panel.cli", ready=lambda: True, **environment)  # noqa: E731
    with Part("web", module="panel.cli", ready=lambda: answers(port), **environment), worker(), worker():
        warm_up()
        idle = asked(port, token, 200)
        seconds, busy = started(port, token)
    rate = STARTED / seconds
    print(f"  {STARTED} machines started in {seconds:.1f} s", flush=True)
    report("starts a second with two workers", rate, least=200)
    report("a list of instances meanwhile, against idle, 99th percentile", percentile(busy) / percentile(idle), 2)


def answers(port):
    try:
        return bool(fetch(port))
    except OSError:
        return False


def warm_up():
    """One task each, so that both workers have imported and connected."""
    for instance in session.scalars(select(Instance).limit(4)).all():
        instances.act(instance, "start", actor="bench")
    session.commit()
    ended(4)


def ended(count):
    done = select(func.count()).where(Task.status == "completed")
    while session.scalar(done) < count:
        session.commit()
        time.sleep(0.05)
    session.commit()


def started(port, token):
    """Seconds until every machine is on, and what the list took meanwhile."""
    found = session.scalars(select(Instance).where(Instance.power == "off").limit(STARTED)).all()
    taken, over = [], threading.Event()
    reader = threading.Thread(target=lambda: read(port, token, taken, over))
    for instance in found:
        instances.act(instance, "start", actor="bench")
    begun = time.perf_counter()
    session.commit()
    reader.start()
    ended(4 + len(found))
    seconds = time.perf_counter() - begun
    over.set()
    reader.join()
    return seconds * STARTED / len(found), taken


def read(port, token, taken, over):
    while not over.is_set():
        taken += asked(port, token, 1)


def asked(port, token, count):
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        fetch(port, PATH, token)
        times.append(time.perf_counter() - begun)
    return times


def percentile(times):
    return statistics.quantiles(times, n=100)[98]


def look(report, node):
    """Every machine differs from its row: the worst there can be."""
    session.execute(update(Instance).values(power="off", power_at=None))
    session.commit()
    real = looks.node_of(node.id).node
    with real.state.transaction() as db:
        db.execute("UPDATE machines SET power = 'off'")
    for machine in real.machines():
        real.start(machine.id)
    begun = time.perf_counter()
    looks.refresh(node.id)
    report(f"a look at {LOOKED_AT} machines that all changed", time.perf_counter() - begun, 5, unit=" s")
    begun = time.perf_counter()
    looks.refresh(node.id)
    report(f"a look at {LOOKED_AT} machines that did not change", time.perf_counter() - begun, 5, unit=" s")
