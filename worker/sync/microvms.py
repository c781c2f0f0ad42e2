"""Reconciling the states of micro VMs with what a node reports."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import structlog
from sqlalchemy import Row, or_, select

from panel.core import clock
from panel.core.db import session
from panel.models import Microvm, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services.microvms import pool_members, read, state_reports
from panel.services.microvms.actions import BUSY_STATES
from worker.nodes.base import NodeDriver, NodeError, NotOnNode, Power

log = structlog.get_logger()

MAX_CHANGES_PER_POLL = 100
"""Micro VMs that are corrected after one poll. The next polls correct the others."""


def list_live(hypervisor_id: str) -> Sequence[Row]:
    """Return id, state and time of the state of the node's live micro VMs, in one query."""
    columns = Microvm.id, Microvm.state, Microvm.state_changed_at
    query = select(*columns).where(Microvm.hypervisor_id == hypervisor_id, Microvm.ended_at.is_(None))
    return session.execute(query).all()


def find_building_machines(hypervisor_id: str) -> set[str]:
    """Return the ids of machines that build images, or that a build may have left until its rollback is done."""
    is_build = Task.hypervisor_id == hypervisor_id, Task.kind == "microvm_image_build"
    is_open = or_(Task.status.in_(OPEN_STATUSES), Task.rollback_pending)
    return set(session.scalars(select(Task.resource_id).where(*is_build, is_open)))


def is_contradicted(state: str, power: Power | None) -> bool:
    """Return whether the node contradicts the state; the power None stands for a machine that it does not have."""
    is_on = power in (Power.on, Power.paused)
    if state in BUSY_STATES:  # wrong unless a task is open
        return True
    return {"running": not is_on, "paused": is_on or power is None, "stopped": is_on}.get(state, False)


def reconcile(node: NodeDriver, rows: Iterable[Row], powers: Mapping[str, Power], queried_at: datetime) -> None:
    """Correct the states that contradict the node's report of the time `queried_at`. `powers`: by machine id.

    Makes a constant number of queries, and asks the node about each machine that is unexpectedly off.
    """
    doubtful = [
        row.id for row in rows if row.state_changed_at < queried_at and is_contradicted(row.state, powers.get(row.id))
    ]
    busy = find_busy(doubtful) if doubtful else set()
    ids = [microvm_id for microvm_id in doubtful if microvm_id not in busy][:MAX_CHANGES_PER_POLL]
    session.commit()
    if not ids:
        return
    try:
        saved = {id_ for id_ in ids if powers.get(id_) is Power.off and is_saved(node, id_)}
    except NodeError as error:  # the next poll comes soon
        log.info("saved_states_unknown", detail=error.detail)
        return
    busy = find_busy(ids)
    for microvm in read.lock(*ids):
        power = powers.get(microvm.id)
        is_current = microvm.state_changed_at < queried_at and microvm.id not in busy
        if is_current and is_contradicted(microvm.state, power):
            report(microvm, power, is_saved=microvm.id in saved)
    session.commit()


def reconcile_pool_members(rows: Iterable[Row], powers: Mapping[str, Power], queried_at: datetime) -> None:
    """Discard the members of warm pools that are ready and that the node does not have, or that run."""
    lost = [
        row.id
        for row in rows
        if row.state == "ready" and row.updated_at < queried_at and powers.get(row.id) is not Power.off
    ]
    if lost:
        pool_members.discard_lost(lost[:MAX_CHANGES_PER_POLL])
    session.commit()


def find_busy(microvm_ids: Sequence[str]) -> set[str]:
    """Return those that open tasks work on. Their state on the node may be temporary."""
    query = select(Task.resource_id).where(Task.resource_id.in_(microvm_ids), Task.status.in_(OPEN_STATUSES))
    return set(session.scalars(query))


def is_saved(node: NodeDriver, machine_id: str) -> bool:
    try:
        return node.has_saved_state(machine_id)
    except NotOnNode:
        return False


def report(microvm: Microvm, power: Power | None, *, is_saved: bool) -> None:
    """Record the power that the node reported. A machine that the hypervisor has suspended counts as running."""
    if power in (Power.on, Power.paused):
        state_reports.record_state(microvm, "running")
    elif is_saved:
        state_reports.record_state(microvm, "paused")
    else:
        error = state_reports.LOST_MESSAGE if power is None else state_reports.TURNED_OFF_MESSAGE
        state_reports.record_state(microvm, "stopped", error)


def on_power_event(
    connect: Callable[[str], NodeDriver], hypervisor_id: str, machine_id: str, power: Power | None
) -> None:
    """Handle a node's event about a machine that is no instance. Events may be late, so the node is asked again."""
    columns = Microvm.id, Microvm.state, Microvm.state_changed_at
    query = select(*columns).where(Microvm.id == machine_id, Microvm.hypervisor_id == hypervisor_id)
    row = session.execute(query.where(Microvm.ended_at.is_(None))).first()
    session.commit()
    if row is None or row.state in BUSY_STATES or not is_contradicted(row.state, power):
        return
    node, queried_at = connect(hypervisor_id), clock.now()
    try:
        powers = {machine_id: node.power(machine_id)}
    except NotOnNode:
        powers = {}
    reconcile(node, [row], powers, queried_at)
