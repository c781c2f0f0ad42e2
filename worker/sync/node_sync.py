"""Polling nodes: whether they are reachable, what they can do, and which machines run on them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar, cast

import structlog
from sqlalchemy import ColumnElement, Row, bindparam, select, update

from panel.core import clock, context
from panel.core.db import lock_row, session
from panel.core.messages import join_messages, message
from panel.models import Hypervisor, Instance, Interface, Migration, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import backup_files, backup_restore_tests, hypervisors
from panel.services.instances import state_reports
from panel.services.metrics.storages import record_storages
from panel.services.microvms import pool_members
from worker import nodes
from worker.nodes.base import (
    HostUsage,
    MachineStatus,
    NodeDriver,
    NodeError,
    NodeSpec,
    NotOnNode,
    Pool,
    Power,
    Unreachable,
)
from worker.sync import metrics, microvms
from worker.sync.committing_node import CommittingNode

log = structlog.get_logger()

BatchRow = TypeVar("BatchRow")

HYPERVISOR_REMOVED_MESSAGE = message("The hypervisor was removed.")
MAX_ROWS_PER_TRANSACTION = 500
MAX_POWER_QUERIES = 3
"""Queries for one event. The next reconciliation corrects a row that no query could."""

"""Rows changed in one transaction."""


def connect_node(hypervisor_id: str | None) -> nodes.NodeDriver:
    """Return the node's driver, as a CommittingNode. Raise NodeError when the row is gone."""
    row = session.get(Hypervisor, hypervisor_id) if hypervisor_id else None
    if row is None:
        raise NodeError(HYPERVISOR_REMOVED_MESSAGE)
    spec = NodeSpec(row.id, row.name, row.driver, row.uri)
    return cast(nodes.NodeDriver, CommittingNode(nodes.connect(spec, context.current().config.data_dir)))


def probe(hypervisor_id: str) -> None:
    """Update the node's capabilities and storages, then reconcile it.

    Runs when a node was added or changed, before a node that was down counts as up again, and every few minutes.
    """
    row = session.get(Hypervisor, hypervisor_id)
    if row is None:
        return
    queried_at, storages = clock.now(), [(storage.name, storage.path) for storage in row.storages]
    try:
        node = connect_node(hypervisor_id)
        node.ping()
        capabilities = node.capabilities()
        pools, faults = prepare_pools(node, storages)
    except NodeError as error:
        return mark_unreachable(hypervisor_id, queried_at, error)
    row = lock_hypervisor(hypervisor_id)
    if row is not None:
        log.info("node_checked", node=row.name, accelerated=capabilities.accelerated, faults=faults)
        hypervisors.mark_up(row, capabilities, pools)
        row.status_detail = join_messages(faults) if faults else None
        record_storages(hypervisor_id)
    session.commit()
    reconcile(hypervisor_id)


def prepare_pools(node: NodeDriver, storages: Iterable[tuple[str, str]]) -> tuple[list[Pool], list[str]]:
    """Return the pools of the storages, and an error sentence for each that cannot be used.

    Such a pool has no capacity.
    """
    pools: list[Pool] = []
    faults: list[str] = []
    for name, path in storages:
        try:
            pools.append(node.prepare_pool(name, path))
        except Unreachable:
            raise
        except NodeError as error:
            pools.append(Pool(name, path))
            faults.append(message("Storage {storage} cannot be used: {detail}", storage=name, detail=error.detail))
    return pools, faults


def reconcile(hypervisor_id: str) -> None:
    """Compare all machines of the node with their rows and correct the rows.

    Makes one call to the node, a second one every 15 seconds, and a number of queries that does not grow with the
    machines. A node that is not up is probed instead.
    """
    row = session.get(Hypervisor, hypervisor_id, populate_existing=True)
    if row is None:
        return session.rollback()
    if row.status != "up":
        return probe(hypervisor_id)
    queried_at = clock.now()
    try:
        node = connect_node(hypervisor_id)
        machines = {machine.id: machine for machine in node.machines()}
    except NodeError as error:
        return mark_unreachable(hypervisor_id, queried_at, error)
    sample = metrics.NodeSample(queried_at, machines)
    if metrics.is_sample_due(hypervisor_id, sample.at):
        sample = replace(sample, host=read_host_usage(node))
    row = lock_hypervisor(hypervisor_id)
    if row is None or is_outdated(row, queried_at):
        return session.rollback()
    if row.status != "up":
        hypervisors.mark_up(row)
    row.seen_at = clock.now()
    columns = (
        Instance.id,
        Instance.power,
        Instance.deployed,
        Instance.missing_on_node,
        Instance.migrating,
        Instance.paused,
    )
    instances = session.execute(select(*columns).where(Instance.hypervisor_id == hypervisor_id)).all()
    live_microvms = microvms.list_live(hypervisor_id)
    members = pool_members.list_on_node(hypervisor_id)
    known_ids = {row.id for row in (*instances, *live_microvms, *members)} | find_arriving_machines(hypervisor_id)
    known_ids |= microvms.find_building_machines(hypervisor_id) | backup_files.list_machine_ids(hypervisor_id)
    known_ids |= backup_restore_tests.list_machine_ids(hypervisor_id)
    unmanaged_ids = sorted(machines.keys() - known_ids)
    row.unmanaged_machines = [{"id": machine_id, "name": machines[machine_id].name} for machine_id in unmanaged_ids]
    interfaces = list_interface_counters(hypervisor_id)
    session.commit()
    reconcile_power(hypervisor_id, instances, machines, queried_at)
    add_traffic(interfaces, machines)
    metrics.record_sample(hypervisor_id, sample)
    powers = {machine.id: machine.power for machine in machines.values()}
    microvms.reconcile(node, live_microvms, powers, queried_at)
    microvms.reconcile_pool_members(members, powers, queried_at)


def read_host_usage(node: NodeDriver) -> HostUsage | None:
    """Return the load of the whole node; None when it does not report it. Its machines are polled all the same."""
    try:
        return node.host_usage()
    except NodeError as error:
        log.info("node_load_unknown", detail=error.detail)
        return None


def find_arriving_machines(hypervisor_id: str) -> set[str]:
    """Return the ids of machines that are migrating to the node. They may exist there already."""
    query = select(Migration.instance_id).where(Migration.target_id == hypervisor_id, Migration.status == "active")
    return set(session.scalars(query))


def mark_unreachable(hypervisor_id: str, queried_at: datetime, error: NodeError) -> None:
    """Record that the node did not answer, unless it has answered a later call."""
    row = lock_hypervisor(hypervisor_id)
    if row is not None and not is_outdated(row, queried_at):
        if row.status != "down":
            log.warning("node_unreachable", node=row.name, detail=error.detail)
        hypervisors.mark_down(row, error.detail)
    session.commit()


def lock_hypervisor(hypervisor_id: str) -> Hypervisor | None:
    return lock_row(Hypervisor, hypervisor_id)


def lock_existing_hypervisor(hypervisor_id: str) -> Hypervisor:
    """Return the locked row. Raise NodeError when it was removed during a call to the node."""
    row = lock_hypervisor(hypervisor_id)
    if row is None:
        raise NodeError(HYPERVISOR_REMOVED_MESSAGE)
    return row


def is_outdated(row: Hypervisor, queried_at: datetime) -> bool:
    """Return whether the node has answered a call made after `queried_at`.

    A `seen_at` in the future is ignored: the clock was set back.
    """
    return row.seen_at is not None and queried_at < row.seen_at <= clock.now()


def reconcile_power(
    hypervisor_id: str, instances: Iterable[Row], machines: Mapping[str, MachineStatus], queried_at: datetime
) -> None:
    """Write the power states that differ. Rows that did not change are not written."""
    busy = find_busy_instances(Task.hypervisor_id == hypervisor_id)
    changes = {}
    for instance in instances:
        machine = machines.get(instance.id)
        power = get_effective_power(instance, machine.power, busy) if machine else None
        if not instance.migrating and (
            is_power_different(instance, power) or has_pause_changed(instance, machine, busy)
        ):
            changes[instance.id] = power
    session.commit()
    for batch in iter_batches(list(changes)):
        for row in state_reports.lock_instances(*batch):
            if row.hypervisor_id == hypervisor_id and not row.migrating:
                apply_power(row, changes[row.id], queried_at, busy)
                state_reports.report_paused(row, is_paused(machines.get(row.id)) and row.id not in busy)
        session.commit()


def is_power_different(instance: Row, power: str | None) -> bool:
    """Return whether the row differs from this power; None stands for a machine that the node does not have."""
    if power:
        return power != instance.power or instance.missing_on_node
    return instance.power == "on" or (instance.deployed and not instance.missing_on_node)


def is_paused(machine: MachineStatus | None) -> bool:
    return machine is not None and machine.power is Power.paused


def has_pause_changed(instance: Row, machine: MachineStatus | None, busy: Mapping[str, str]) -> bool:
    """Return whether the row's `paused` is wrong.

    A machine that a task works on may be paused for a moment and is ignored.
    """
    return instance.id not in busy and is_paused(machine) != instance.paused


def to_power_state(power: Power) -> str:
    """Return "on" or "off". A paused machine counts as on."""
    return "off" if power is Power.off else "on"


def get_effective_power(instance: Instance | Row, power: Power, busy: Mapping[str, str]) -> str:
    """Return the power state to record for a machine.

    Tasks start a machine that is off in paused state to merge its overlays. No guest runs then, so it counts as off.
    """
    if power is Power.paused and instance.power == "off" and instance.id in busy:
        return "off"
    return to_power_state(power)


def apply_power(instance: Instance, power: str | None, at: datetime, busy: Mapping[str, str]) -> bool:
    """Record the power that a query begun at `at` read; None when the node does not have the machine.

    Return False when another report overlapped with the query.
    """
    if power:
        return state_reports.report_power(instance, power, at=at, actor=busy.get(instance.id) or "system")
    return instance.id in busy or state_reports.report_missing(instance, at=at)


def find_busy_instances(*conditions: ColumnElement[bool]) -> dict[str, str]:
    """Return the instances that open tasks work on, with the actor of the task.

    Their state on the node may be temporary.
    """
    query = select(Task.resource_id, Task.actor).where(*conditions, Task.status.in_(OPEN_STATUSES)).order_by(Task.id)
    return {row.resource_id: row.actor for row in session.execute(query)}


def list_interface_counters(hypervisor_id: str) -> Sequence[Row]:
    """Return the interfaces of the node's machines with the traffic counters as last read."""
    columns = (Interface.id, Interface.instance_id, Interface.mac, Interface.counted_received, Interface.counted_sent)
    return session.execute(select(*columns).join(Instance).where(Instance.hypervisor_id == hypervisor_id)).all()


def add_traffic(interfaces: Iterable[Row], machines: Mapping[str, MachineStatus]) -> None:
    """Add the traffic since the last poll. A row changes only if no other process has counted meanwhile."""
    changes = []
    for interface in interfaces:
        machine = machines.get(interface.instance_id)
        if machine is None or interface.mac not in machine.received:
            continue
        received, sent = machine.received[interface.mac], machine.sent.get(interface.mac, 0)
        if (received, sent) != (interface.counted_received, interface.counted_sent):
            changes.append(
                {
                    "interface_id": interface.id,
                    "before_received": interface.counted_received,
                    "before_sent": interface.counted_sent,
                    "now_received": received,
                    "now_sent": sent,
                    "more_received": compute_counter_delta(received, interface.counted_received),
                    "more_sent": compute_counter_delta(sent, interface.counted_sent),
                }
            )
    for batch in iter_batches(changes):
        session.connection().execute(ADD_TRAFFIC, batch)
        session.commit()


interface_columns = Interface.__table__.c
ADD_TRAFFIC = (
    update(Interface.__table__)
    .where(
        interface_columns.id == bindparam("interface_id"),
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


def compute_counter_delta(now: int, before: int) -> int:
    """Return the growth of a counter. A counter that decreased was restarted with the machine."""
    return now - before if now >= before else now


def iter_batches(rows: Sequence[BatchRow]) -> Iterator[Sequence[BatchRow]]:
    return (rows[start : start + MAX_ROWS_PER_TRANSACTION] for start in range(0, len(rows), MAX_ROWS_PER_TRANSACTION))


def on_power_event(hypervisor_id: str, instance_id: str, power: Power | None) -> None:
    """Handle a node's event: the new power of a machine, or None when it was removed.

    Events may be delayed and carry no timestamp, so an event that would change the row triggers a fresh query. The
    query is repeated when another report was recorded meanwhile.
    """
    query = select(Instance.power, Instance.deployed, Instance.missing_on_node)
    conditions = Instance.id == instance_id, Instance.hypervisor_id == hypervisor_id, ~Instance.migrating
    row = session.execute(query.where(*conditions)).first()
    if row is None:
        return microvms.on_power_event(connect_node, hypervisor_id, instance_id, power)
    if not is_power_different(row, power and to_power_state(power)):
        return session.rollback()
    for _attempt in range(MAX_POWER_QUERIES):
        if record_queried_power(hypervisor_id, instance_id):
            return


def record_queried_power(hypervisor_id: str, instance_id: str) -> bool:
    """Query a machine's power, record it and commit. Return False when a report overlapped with the query."""
    queried_at, busy = clock.now(), find_busy_instances(Task.resource_id == instance_id)
    power = find_power(connect_node(hypervisor_id), instance_id)
    is_recorded = True
    for instance in state_reports.lock_instances(instance_id):
        if instance.hypervisor_id == hypervisor_id and not instance.migrating:
            effective_power = power and get_effective_power(instance, power, busy)
            is_recorded = apply_power(instance, effective_power, queried_at, busy)
    session.commit()
    return is_recorded


def find_power(node: NodeDriver, machine_id: str) -> Power | None:
    """Return the machine's power; None when the node does not have it."""
    try:
        return node.power(machine_id)
    except NotOnNode:
        return None
