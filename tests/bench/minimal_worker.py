"""The minimal work that starts a machine: claim a task, start the machine on the node, update the rows. A worker has
locks, cancellation, rollback, logs and webhooks in addition.

`python -m tests.bench.minimal_worker DATA_DIR DATABASE_URL PART PARTS` runs every PARTS-th queued task, one after the
other, and prints the duration in seconds.
"""

import sys
import time
from pathlib import Path

from sqlalchemy import bindparam, create_engine, insert, select, update

from panel.core import clock
from panel.core.db import generate_id
from panel.models import Disk, Event, Hypervisor, Instance, Storage, Task
from worker import nodes
from worker.nodes.base import Disk as Volume
from worker.nodes.base import GiB, Machine, NodeSpec

tasks, instances, disks, storages = (model.__table__ for model in (Task, Instance, Disk, Storage))
QUEUED_TASKS_QUERY = select(tasks.c.id).where(tasks.c.status == "queued").order_by(tasks.c.id)
CLAIM_UPDATE = update(tasks).where(tasks.c.id == bindparam("task"), tasks.c.worker.is_(None))
CLAIM_UPDATE = CLAIM_UPDATE.values(status="running", worker="bare").returning(tasks.c.resource_id)
MACHINE_QUERY = select(
    instances.c["id", "name", "cpu_cores", "ram", "account_id"], disks.c.name, storages.c.name, disks.c.size
)
MACHINE_QUERY = MACHINE_QUERY.join_from(instances, disks).join(storages).where(instances.c.id == bindparam("instance"))
POWER_UPDATE = (
    update(instances)
    .where(instances.c.id == bindparam("instance"))
    .values(power="on", power_reported_at=bindparam("now"))
)
TASK_UPDATE = update(tasks).where(tasks.c.id == bindparam("task"))
TASK_UPDATE = TASK_UPDATE.values(status="completed", progress=100, worker=None, finished_at=bindparam("now"))
EVENT_INSERT = insert(Event.__table__).values(
    kind="instance.status_changed", resource_type="instance", actor="bench", data={}
)


def run_task(engine, node, task):
    with engine.begin() as db:
        instance = db.execute(CLAIM_UPDATE, {"task": task}).scalar_one()
    with engine.begin() as db:
        ident, name, cores, ram, account, disk, pool, size = db.execute(MACHINE_QUERY, {"instance": instance}).one()
    node.define(Machine(ident, name, cores, ram, (Volume(pool, disk, size * GiB),)))
    node.start(ident)
    now = clock.now()
    with engine.begin() as db:
        db.execute(POWER_UPDATE, {"instance": instance, "now": now})
        event = {
            "id": generate_id(),
            "resource_id": instance,
            "account_id": account,
            "created_at": now,
            "fanned_out_at": now,
        }
        db.execute(EVENT_INSERT, event)
        db.execute(TASK_UPDATE, {"task": task, "now": now})


def main(data_dir, database_url, part, parts):
    engine = create_engine(database_url)
    with engine.connect() as db:
        spec = NodeSpec(*db.execute(select(Hypervisor.__table__.c["id", "name", "driver", "uri"])).one())
        task_ids = db.scalars(QUEUED_TASKS_QUERY).all()[int(part) :: int(parts)]
    node = nodes.connect(spec, Path(data_dir))
    node.ping()
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    for task in task_ids:
        run_task(engine, node, task)
    print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
