"""Metrics of 5,000 machines of a node: writing a sample every 15 seconds, and reading charts and lists.

Targets: writing a sample of all machines takes at most a tenth of the 15 seconds, and half of them when longer
intervals are aggregated; charts and lists take at most twice the time as with 200 machines; the table does not grow
once its ring buffers are full.
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
from worker.sync import metrics as metrics_sync

MACHINES, FEW_MACHINES, SAMPLE_INTERVAL_SECONDS, ROUNDS = 5_000, 200, 15, 12
QUICK_SIZES = {"MACHINES": 120, "FEW_MACHINES": 2, "ROUNDS": 3}


def bench(report):
    with tempfile.TemporaryDirectory() as directory, postgres.run_server() as address:
        for name, url in rows.list_databases(address):
            config = Config(
                data_dir=Path(directory) / name, database_url=url, secret_key="bench", redis_url="redis://127.0.0.1:1"
            )
            config.data_dir.mkdir()
            rows.create_customer(config)
            app = create_app(config)
            with app.app_context(), rows.suppress_jobs():
                node = session.scalar(select(Hypervisor))
                subnet, plan = session.scalar(select(Subnet)), session.scalar(select(Plan))
                account = session.scalar(select(Account).order_by(Account.id))
                rows.add_instances(account, node, plan, subnet, rows.OWN_INSTANCES, MACHINES - rows.OWN_INSTANCES)
                session.commit()
                run(report, name, node.id)
                db.engine.dispose()


def run(report, name, node_id):
    ids = session.scalars(select(Instance.id)).all()
    begin = datetime.now(UTC).timestamp() // 3600 * 3600 - 3600
    fill_ring_buffers(ids[:FEW_MACHINES], begin)
    page = session.scalars(select(Instance).where(Instance.id.in_(ids[:100]))).all()
    reads = {
        "a chart of a day": lambda: metrics.get_series(page[0], "1d"),
        "a chart of a week": lambda: metrics.get_series(page[0], "1w"),
        "small curves of 100": lambda: metrics.get_sparklines(page),
    }
    alone = {what: measure_median(call) for what, call in reads.items()}
    first = record_samples(node_id, ids, begin)
    again = record_samples(node_id, ids, begin + SLOTS_BY_STEP[SAMPLE_INTERVAL_SECONDS] * SAMPLE_INTERVAL_SECONDS)
    report(
        f"a sample of {MACHINES} machines, {name}, part of 15 s",
        statistics.median(first) / SAMPLE_INTERVAL_SECONDS,
        0.1,
    )
    report(f"the slowest, with longer spans, {name}, part of 15 s", max(first + again) / SAMPLE_INTERVAL_SECONDS, 0.5)
    rows_before = session.scalar(
        select(func.count()).select_from(InstanceMetric).where(InstanceMetric.step == SAMPLE_INTERVAL_SECONDS)
    )
    record_samples(node_id, ids, begin + 2 * SLOTS_BY_STEP[SAMPLE_INTERVAL_SECONDS] * SAMPLE_INTERVAL_SECONDS)
    rows_after = session.scalar(
        select(func.count()).select_from(InstanceMetric).where(InstanceMetric.step == SAMPLE_INTERVAL_SECONDS)
    )
    report(f"rows after another round of the rings against before, {name}", rows_after / rows_before, 1.0)
    for what, call in reads.items():
        report(
            f"{what} among {MACHINES} machines against {FEW_MACHINES}, {name}", measure_median(call) / alone[what], 2.0
        )


def fill_ring_buffers(ids, begin):
    """Fill the ring buffers of these machines."""
    values = dict.fromkeys(METRIC_NAMES, 1.0)
    for step, count in SLOTS_BY_STEP.items():
        for slot in range(count):
            metrics.write(dict.fromkeys(ids, values), begin - slot * step, step)
    session.commit()


def record_samples(node_id, ids, begin):
    """Record samples of all machines. Return the seconds for each but the first."""
    times = []
    for number in range(ROUNDS):
        second = number * SAMPLE_INTERVAL_SECONDS
        statuses = {
            machine_id: MachineStatus(
                machine_id, machine_id, Power.on, 100 + second / 2, 2**28, {"m": 10**6 * second + 1}, {"m": second + 1}
            )
            for machine_id in ids
        }
        sample = metrics_sync.NodeSample(
            datetime.fromtimestamp(begin + second, UTC), statuses, clock=float(second + begin)
        )
        start = time.perf_counter()
        metrics_sync.record_sample(node_id, sample)
        times.append(time.perf_counter() - start)
    return times[1:]


def measure_median(call):
    times = []
    for _ in range(30):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
