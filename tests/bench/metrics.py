"""What machines used: written for 5,000 machines of a node every 15 seconds, and read for charts and lists.

Targets: writing a sample of all of them takes at most a tenth of the 15 seconds, and half of them when longer spans
are worked out; charts and lists cost what they cost among 200 machines; the table does not
grow once its rings are full.
"""

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import func, select

from panel.app import create_app
from panel.core.config import Config
from panel.core.db import db, session
from panel.models import Account, Hypervisor, Instance, InstanceMetric, Plan, Subnet
from panel.models.metrics import METRIC_NAMES, SLOTS_BY_STEP
from panel.services import metrics
from tests.bench import rows
from tests.support import postgres
from worker.nodes.base import MachineStatus, Power
from worker.sync import metrics as measuring

MACHINES, FEW, PERIOD, ROUNDS = 5_000, 200, 15, 12
QUICK = {"MACHINES": 120, "FEW": 2, "ROUNDS": 3}


def bench(report):
    with tempfile.TemporaryDirectory() as directory, postgres.run_server() as address:
        for name, url in rows.databases(address):
            config = Config(
                data_dir=Path(directory) / name, database_url=url, secret_key="bench", redis_url="redis://127.0.0.1:1"
            )
            config.data_dir.mkdir()
            rows.fill(config)
            app = create_app(config)
            with app.app_context(), rows.without_jobs():
                node = session.scalar(select(Hypervisor))
                subnet, plan = session.scalar(select(Subnet)), session.scalar(select(Plan))
                account = session.scalar(select(Account).order_by(Account.id))
                rows.add_instances(account, node, plan, subnet, rows.OWN, MACHINES - rows.OWN)
                session.commit()
                run(report, name, node.id)
                db.engine.dispose()


def run(report, name, node_id):
    ids = session.scalars(select(Instance.id)).all()
    begin = datetime.now(UTC).timestamp() // 3600 * 3600 - 3600
    full(ids[:FEW], begin)
    page = session.scalars(select(Instance).where(Instance.id.in_(ids[:100]))).all()
    reads = {
        "a chart of a day": lambda: metrics.get_series(page[0], "1d"),
        "a chart of a week": lambda: metrics.get_series(page[0], "1w"),
        "small curves of 100": lambda: metrics.get_sparklines(page),
    }
    alone = {what: median(call) for what, call in reads.items()}
    first = samples(node_id, ids, begin)
    again = samples(node_id, ids, begin + SLOTS_BY_STEP[PERIOD] * PERIOD)
    report(f"a sample of {MACHINES} machines, {name}, part of 15 s", statistics.median(first) / PERIOD, 0.1)
    report(f"the slowest, with longer spans, {name}, part of 15 s", max(first + again) / PERIOD, 0.5)
    kept = session.scalar(select(func.count()).select_from(InstanceMetric).where(InstanceMetric.step == PERIOD))
    samples(node_id, ids, begin + 2 * SLOTS_BY_STEP[PERIOD] * PERIOD)
    after = session.scalar(select(func.count()).select_from(InstanceMetric).where(InstanceMetric.step == PERIOD))
    report(f"rows after another round of the rings against before, {name}", after / kept, 1.0)
    for what, call in reads.items():
        report(f"{what} among {MACHINES} machines against {FEW}, {name}", median(call) / alone[what], 2.0)


def full(ids, begin):
    """Rings without a free place, for some machines."""
    figures = dict.fromkeys(METRIC_NAMES, 1.0)
    for step, count in SLOTS_BY_STEP.items():
        for slot in range(count):
            metrics.write(dict.fromkeys(ids, figures), begin - slot * step, step)
    session.commit()


def samples(node_id, ids, begin):
    """Seconds that each sample of all machines took."""
    taken = []
    for number in range(ROUNDS):
        second = number * PERIOD
        seen = {
            id_: MachineStatus(
                id_, id_, Power.on, 100 + second / 2, 2**28, {"m": 10**6 * second + 1}, {"m": second + 1}
            )
            for id_ in ids
        }
        look = measuring.NodeSample(datetime.fromtimestamp(begin + second, UTC), seen, float(second + begin))
        began = time.perf_counter()
        measuring.record_sample(node_id, look)
        taken.append(time.perf_counter() - began)
    return taken[1:]


def median(call):
    taken = []
    for _ in range(30):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)
