"""CPU time of one evaluation of 10,000 alert rules, each of one instance with current values.

Rules are evaluated once a minute, so the target is at most two seconds of CPU for each evaluation. Three minutes are
measured: nothing changes, a tenth of the rules begins to fire, and it fires on.
"""

import tempfile
import time
from pathlib import Path

from sqlalchemy import func, insert, select

from panel.app import create_app
from panel.core import clock
from panel.core.config import Config
from panel.core.db import db, generate_id, session
from panel.models import Account, AlertEvent, AlertRule, Hypervisor, Instance, Plan, Subnet
from panel.models.metrics import METRIC_NAMES
from panel.services import metrics
from tests.bench import rows
from tests.support import postgres
from worker.tasks import alert_rules as tasks

RULES = 10_000
QUICK_SIZES = {"RULES": 120}
FIRING_SHARE = 10


def bench(report):
    with tempfile.TemporaryDirectory() as directory, postgres.run_server() as address:
        for name, url in rows.list_databases(address):
            config = Config(
                data_dir=Path(directory) / name, database_url=url, secret_key="bench", redis_url="redis://127.0.0.1:1"
            )
            config.data_dir.mkdir()
            rows.create_customer(config)
            with create_app(config).app_context(), rows.suppress_jobs():
                instance_ids = add_rules()
                for label, values in (("nothing changes", 20.0), ("a tenth fires", None), ("the same fires", None)):
                    add_samples(instance_ids, values)
                    report(f"{RULES} alert rules, {label}, {name}", measure(), 2.0, unit=" s of CPU")
                assert session.scalar(select(func.count(AlertEvent.id))) == -(-RULES // FIRING_SHARE)


def add_rules():
    node, account = session.scalar(select(Hypervisor)), session.scalar(select(Account).order_by(Account.id))
    plan, subnet = session.scalar(select(Plan)), session.scalar(select(Subnet))
    rows.add_instances(account, node, plan, subnet, rows.OWN_INSTANCES, max(0, RULES - rows.OWN_INSTANCES))
    ids = session.scalars(select(Instance.id).order_by(Instance.id).limit(RULES)).all()
    now = clock.now()
    values = {"account_id": account.id, "resource_type": "instance", "metric": "cpu_pct", "operator": "gt"}
    values |= {"threshold": 90, "duration": 0, "reminder_interval": 3600, "enabled": True}
    values |= {"created_at": now, "updated_at": now}
    rules = [{"id": generate_id(), "name": f"rule {id_}", "resource_id": id_, **values} for id_ in ids]
    session.execute(insert(AlertRule.__table__), rules)
    session.commit()
    db.session.expire_all()
    return ids


def add_samples(ids, cpu_percent):
    now, sample = clock.now().timestamp(), dict.fromkeys(METRIC_NAMES, 10.0)
    for age in (15, 30, 45, 60):
        samples = {
            id_: sample | {"cpu_percent": cpu_percent or (95.0 if position % FIRING_SHARE == 0 else 20.0)}
            for position, id_ in enumerate(ids)
        }
        metrics.write(samples, now - age)
    session.commit()


def measure():
    """Return the seconds of CPU that one evaluation takes in this process."""
    start = time.process_time()
    tasks.evaluate_all()
    return time.process_time() - start
