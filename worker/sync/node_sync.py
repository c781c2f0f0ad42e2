"""Looking at nodes: reachable, what they can do, what runs on them."""

from functools import wraps

import structlog
from sqlalchemy import bindparam, select, update

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, Instance, Interface, Migration, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import hypervisors
from panel.services.instances import state_reports
from worker import nodes
from worker.nodes.base import Missing, NodeError, NodeSpec, Pool, Power, Unreachable
from worker.sync import metrics

log = structlog.get_logger()
data_dir = None
"""Where drivers may keep files of their own; set when the process starts."""

MAX_ROWS_PER_TRANSACTION = 500
"""Rows changed in one transaction."""


class CommittingNode:
    """A node whose every call first ends the open transaction: nothing in the database stays locked while it thinks."""

    def __init__(self, node):
        self.node = node

    def __getattr__(self, name):
        method = getattr(self.node, name)

        @wraps(method)
        def call(*args, **kwargs):
            session.commit()
            return method(*args, **kwargs)

        return call


def connect_node(hypervisor_id) -> nodes.NodeDriver:
    row = session.get(Hypervisor, hypervisor_id)
    if row is None:
        raise NodeError("The hypervisor was removed.")
    return CommittingNode(nodes.connect(NodeSpec(row.id, row.name, row.driver, row.uri), data_dir))


def probe(hypervisor_id):
    """Looks closely: capabilities, storages. Runs when a node was added or changed, before one that was silent counts
    as up again, and now and then."""
    row = session.get(Hypervisor, hypervisor_id)
    if row is None:
        return
    asked, storages = clock.now(), [(storage.name, storage.path) for storage in row.storages]
    try:
        node = connect_node(hypervisor_id)
        node.ping()
        capabilities = node.capabilities()
        pools, faults = prepare_pools(node, storages)
    except NodeError as error:
        return mark_unreachable(hypervisor_id, asked, error)
    row = lock_hypervisor(hypervisor_id)
    if row is not None:
        log.info("node_checked", node=row.name, accelerated=capabilities.accelerated, faults=faults)
        hypervisors.mark_up(row, capabilities, pools)
        row.status_detail = " ".join(faults) or None
    session.commit()
    reconcile(hypervisor_id)


def prepare_pools(node, storages):
    """The pools of the storages, and what is wrong with some. One that cannot be used has no room; the others go on."""
    pools, faults = [], []
    for name, path in storages:
        try:
            pools.append(node.prepare_pool(name, path))
        except Unreachable:
            raise
        except NodeError as error:
            pools.append(Pool(name, path))
            faults.append(f"Storage {name} cannot be used: {error.detail}")
    return pools, faults


def reconcile(hypervisor_id):
    """Compares every machine of the node with its row: one call to the node, and queries whose number does not grow
    with the machines. A node that was not up has to prove itself first."""
    row = session.get(Hypervisor, hypervisor_id, populate_existing=True)
    if row is None:
        return session.rollback()
    if row.status != "up":
        return probe(hypervisor_id)
    asked = clock.now()
    try:
        machines = {machine.id: machine for machine in connect_node(hypervisor_id).machines()}
    except NodeError as error:
        return mark_unreachable(hypervisor_id, asked, error)
    look = metrics.NodeSample(asked, machines)
    row = lock_hypervisor(hypervisor_id)
    if row is None or is_outdated(row, asked):
        return session.rollback()
    if row.status != "up":
        hypervisors.mark_up(row)
    row.seen_at = clock.now()
    known = select(Instance.id, Instance.power, Instance.deployed, Instance.lost, Instance.migrating, Instance.frozen)
    known = session.execute(known.where(Instance.hypervisor_id == hypervisor_id)).all()
    strangers = sorted(machines.keys() - {instance.id for instance in known} - find_arriving_machines(hypervisor_id))
    row.strangers = [{"id": i, "name": machines[i].name} for i in strangers]
    cards = interface_counters(hypervisor_id)
    session.commit()
    reconcile_power(hypervisor_id, known, machines, asked)
    add_traffic(cards, machines)
    metrics.record_sample(hypervisor_id, look)


def find_arriving_machines(hypervisor_id):
    """The machines that are moving to the node. They may be there already, and it is the move that says so."""
    moving = select(Migration.instance_id).where(Migration.target_id == hypervisor_id, Migration.status == "active")
    return set(session.scalars(moving))


def mark_unreachable(hypervisor_id, asked, error):
    """Notes that the node did not answer, unless it did so for somebody who asked later."""
    row = lock_hypervisor(hypervisor_id)
    if row is not None and not is_outdated(row, asked):
        if row.status != "down":
            log.warning("node_unreachable", node=row.name, detail=error.detail)
        hypervisors.mark_down(row, error.detail)
    session.commit()


def lock_hypervisor(hypervisor_id):
    return session.get(Hypervisor, hypervisor_id, with_for_update={"key_share": True}, populate_existing=True)


def is_outdated(row, asked):
    """Whether somebody heard from the node after it was asked. (A time in the future is from a clock set back.)"""
    return row.seen_at is not None and asked < row.seen_at <= clock.now()


def reconcile_power(hypervisor_id, known, machines, asked):
    """Writes the power that is different. A row that did not change is not touched."""
    at_work = find_busy_instances(Task.hypervisor_id == hypervisor_id)
    news = {}
    for instance in known:
        machine = machines.get(instance.id)
        power = machine and effective_power(instance, machine.power, at_work)
        if not instance.migrating and (
            is_power_different(instance, power) or has_pause_changed(instance, machine, at_work)
        ):
            news[instance.id] = power
    session.commit()
    for some in iter_batches(list(news)):
        for instance in state_reports.lock_instances(*some):
            if instance.hypervisor_id == hypervisor_id and not instance.migrating:
                apply_power(instance, news[instance.id], asked, at_work)
                state_reports.report_paused(
                    instance, is_paused(machines.get(instance.id)) and instance.id not in at_work
                )
        session.commit()


def is_power_different(instance, power):
    """Whether the row says something else than this power; None for a machine that is not there."""
    if power:
        return power != instance.power or instance.lost
    return instance.power == "on" or (instance.deployed and not instance.lost)


def is_paused(machine):
    return machine is not None and machine.power is Power.paused


def has_pause_changed(instance, machine, at_work):
    """Whether the row is wrong about its being paused. Tasks pause machines for a moment, which is no news."""
    return instance.id not in at_work and is_paused(machine) != instance.frozen


def power_state(power):
    """A machine that is paused counts as on."""
    return "off" if power is Power.off else "on"


def effective_power(instance, power, at_work):
    """What a machine counts as for its row. Tasks start a machine that is off paused, to merge its overlays: no guest
    runs in it."""
    if power is Power.paused and instance.power == "off" and instance.id in at_work:
        return "off"
    return power_state(power)


def apply_power(instance, power, at, at_work):
    """What the node showed of the instance at that time; no power when it does not have the machine."""
    if power:
        state_reports.report_power(instance, power, at=at, actor=at_work.get(instance.id) or "system")
    elif instance.id not in at_work:
        state_reports.report_missing(instance, at=at)


def find_busy_instances(*of_tasks):
    """The instances that a task works on, so that what the node shows may be half-way, with who asked for it."""
    found = select(Task.resource_id, Task.actor).where(*of_tasks, Task.status.in_(OPEN_STATUSES)).order_by(Task.id)
    return {row.resource_id: row.actor for row in session.execute(found)}


def interface_counters(hypervisor_id):
    """The network cards of the node's machines, with the counters as they were last read."""
    columns = (Interface.id, Interface.instance_id, Interface.mac, Interface.counted_received, Interface.counted_sent)
    return session.execute(select(*columns).join(Instance).where(Instance.hypervisor_id == hypervisor_id)).all()


def add_traffic(cards, machines):
    """Adds what passed since the last look. Each row is only changed if nobody else counted meanwhile."""
    moved = []
    for card in cards:
        machine = machines.get(card.instance_id)
        if machine is None or card.mac not in machine.received:
            continue
        received, sent = machine.received[card.mac], machine.sent.get(card.mac, 0)
        if (received, sent) != (card.counted_received, card.counted_sent):
            moved.append(
                {
                    "card": card.id,
                    "before_received": card.counted_received,
                    "before_sent": card.counted_sent,
                    "now_received": received,
                    "now_sent": sent,
                    "more_received": counter_delta(received, card.counted_received),
                    "more_sent": counter_delta(sent, card.counted_sent),
                }
            )
    for some in iter_batches(moved):
        session.connection().execute(ADD_TRAFFIC, some)
        session.commit()


interface_columns = Interface.__table__.c
ADD_TRAFFIC = (
    update(Interface.__table__)
    .where(
        interface_columns.id == bindparam("card"),
        interface_columns.counted_received == bindparam("before_received"),
        interface_columns.counted_sent == bindparam("before_sent"),
    )
    .values(
        received=interface_columns.received + bindparam("more_received"),
        sent=interface_columns.sent + bindparam("more_sent"),
        counted_received=bindparam("now_received"),
        counted_sent=bindparam("now_sent"),
    )
)


def counter_delta(now, before):
    """A counter that went back began anew with the machine."""
    return now - before if now >= before else now


def iter_batches(rows):
    return (rows[start : start + MAX_ROWS_PER_TRANSACTION] for start in range(0, len(rows), MAX_ROWS_PER_TRANSACTION))


def on_power_event(hypervisor_id, instance_id, power):
    """A node's event: one machine's power, or (None) that it was removed. Events are late at times and bear no date, so
    one that is news is not believed: the node is asked what is true now."""
    known = select(Instance.power, Instance.deployed, Instance.lost)
    here = Instance.id == instance_id, Instance.hypervisor_id == hypervisor_id, ~Instance.migrating
    known = session.execute(known.where(*here)).first()
    if known is None or not is_power_different(known, power and power_state(power)):
        return session.rollback()
    asked, at_work = clock.now(), find_busy_instances(Task.resource_id == instance_id)
    power = find_power(connect_node(hypervisor_id), instance_id)
    for instance in state_reports.lock_instances(instance_id):
        if instance.hypervisor_id == hypervisor_id and not instance.migrating:
            apply_power(instance, power and effective_power(instance, power, at_work), asked, at_work)
    session.commit()


def find_power(node, machine_id):
    """The machine's power; None when the node does not have it."""
    try:
        return node.power(machine_id)
    except Missing:
        return None
