"""The least that starts a machine: a task is taken, the node does it, the rows say so. What workers do beyond that
(locks, cancelling, undoing, logs, webhooks) is the difference.

`python -m tests.bench.bare DATA_DIR DATABASE_URL PART PARTS` carries every PARTS-th queued task, one after the
other, and prints how many seconds that took.
"""

import sys
import time
from pathlib import Path

from sqlalchemy import bindparam, create_engine, insert, select, update

from panel.core import clock
from panel.core.db import new_id
from panel.models import Disk, Event, Hypervisor, Instance, Storage, Task
from worker import nodes
from worker.nodes.base import Disk as Volume
from worker.nodes.base import GiB, Machine, NodeSpec

tasks, instances, disks, storages = (model.__table__ for model in (Task, Instance, Disk, Storage))
QUEUED = select(tasks.c.id).where(tasks.c.status == "queued").order_by(tasks.c.id)
TAKE = update(tasks).where(tasks.c.id == bindparam("task"), tasks.c.worker.is_(None))
TAKE = TAKE.values(status="running", worker="bare").returning(tasks.c.resource_id)
READ = select(instances.c["id", "name", "cpu_cores", "ram", "account_id"], disks.c.name, storages.c.name, disks.c.size)
READ = READ.join_from(instances, disks).join(storages).where(instances.c.id == bindparam("instance"))
ON = (
    update(instances)
    .where(instances.c.id == bindparam("instance"))
    .values(power="on", power_reported_at=bindparam("now"))
)
END = update(tasks).where(tasks.c.id == bindparam("task"))
END = END.values(status="completed", progress=100, worker=None, finished_at=bindparam("now"))
TOLD = insert(Event.__table__).values(kind="instance.status_changed", resource_type="instance", actor="bench", data={})


def carry(engine, node, task):
    with engine.begin() as db:
        instance = db.execute(TAKE, {"task": task}).scalar_one()
    with engine.begin() as db:
        ident, name, cores, ram, account, disk, pool, size = db.execute(READ, {"instance": instance}).one()
    node.define(Machine(ident, name, cores, ram, (Volume(pool, disk, size * GiB),)))
    node.start(ident)
    now = clock.now()
    with engine.begin() as db:
        db.execute(ON, {"instance": instance, "now": now})
        told = {"id": new_id(), "resource_id": instance, "account_id": account, "created_at": now, "fanned_out_at": now}
        db.execute(TOLD, told)
        db.execute(END, {"task": task, "now": now})


def main(data_dir, database_url, part, parts):
    engine = create_engine(database_url)
    with engine.connect() as db:
        spec = NodeSpec(*db.execute(select(Hypervisor.__table__.c["id", "name", "driver", "uri"])).one())
        mine = db.scalars(QUEUED).all()[int(part) :: int(parts)]
    node = nodes.connect(spec, Path(data_dir))
    node.ping()
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    for task in mine:
        carry(engine, node, task)
    print(time.perf_counter() - begun, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
