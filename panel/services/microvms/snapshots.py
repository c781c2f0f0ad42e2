"""Snapshots of micro VMs: take, roll back, delete."""

from sqlalchemy import Select, select

from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Microvm, MicrovmSnapshot, Task
from panel.services.microvms import actions, timeouts
from panel.services.state_machine import TASK_RUNNING

task_kind("microvm_snapshot", "New micro VM snapshot")
task_kind("microvm_rollback", "Micro VM rollback")
task_kind("microvm_snapshot_delete", "Micro VM snapshot removal")

MAX_SNAPSHOTS_PER_MICROVM = 10
"""Maximum number of snapshots of a micro VM: each makes its disk larger."""


def listing(microvm: Microvm) -> Select[MicrovmSnapshot]:
    """Select the snapshots, oldest first."""
    return select(MicrovmSnapshot).where(MicrovmSnapshot.microvm_id == microvm.id).order_by(MicrovmSnapshot.id)


def get(microvm: Microvm, snapshot_id: str, error_field: str | None = None) -> MicrovmSnapshot:
    """Return the snapshot. Raise Invalid for `error_field` when the id came from a body, else NotFound."""
    snapshot = session.scalar(listing(microvm).where(MicrovmSnapshot.id == snapshot_id))
    if snapshot is None:
        sentence = message("The micro VM has no such snapshot.")
        raise Invalid(sentence, **{error_field: sentence}) if error_field else NotFound(sentence)
    return snapshot


def find_by_id(snapshot_id: str) -> MicrovmSnapshot | None:
    """Return the snapshot or None, read again; for workers."""
    return session.get(MicrovmSnapshot, snapshot_id, populate_existing=True)


def create(microvm: Microvm, *, actor: str, name: str | None = None) -> tuple[MicrovmSnapshot, Task]:
    """Take a snapshot: of the disk, and of the memory if the micro VM runs. Return it with its task."""
    actions.ensure_allowed(microvm, "snapshot")
    names = set(session.scalars(listing(microvm).with_only_columns(MicrovmSnapshot.name)))
    if len(names) >= MAX_SNAPSHOTS_PER_MICROVM:
        sentence = message(
            "A micro VM has at most {maximum} snapshots. Delete one first.", maximum=MAX_SNAPSHOTS_PER_MICROVM
        )
        raise Invalid(sentence, reason="snapshot_limit", name=sentence)
    name = name or next(name for number in range(1, len(names) + 2) if (name := f"snapshot-{number}") not in names)
    if name in names:
        raise Invalid(message("This name is taken."), name=message("This name is taken."))
    snapshot = MicrovmSnapshot(microvm=microvm, name=name, has_memory=microvm.state == "running")
    session.add(snapshot)
    session.flush()
    return snapshot, actions.enqueue(microvm, "snapshot", actor, snapshot_id=snapshot.id)


def roll_back(snapshot: MicrovmSnapshot, *, actor: str) -> Task:
    """Return the micro VM to the snapshot; later changes are lost.

    With memory it runs afterwards from where it was. Without, it boots if it ran or was paused.
    """
    microvm = snapshot.microvm
    actions.ensure_allowed(microvm, "rollback")
    if snapshot.status != "available":
        raise Conflict(
            message("The snapshot cannot be used: it is {status}.", status=snapshot.status),
            reason="snapshot_not_available",
        )
    is_running_after = snapshot.has_memory or microvm.state != "stopped"
    before, was_paused = microvm.state, microvm.state == "paused"
    task = actions.enqueue(microvm, "rollback", actor, snapshot_id=snapshot.id, before=before, start=is_running_after)
    snapshot.status = "restoring"
    actions.set_state(microvm, "starting" if is_running_after else "stopping")
    if was_paused or (before == "stopped" and is_running_after):
        timeouts.request(microvm)
    session.flush()
    return task


def delete(snapshot: MicrovmSnapshot, *, actor: str) -> Task:
    actions.ensure_not_busy(snapshot.microvm)
    if snapshot.status not in ("available", "failed"):
        raise actions.make_problem(TASK_RUNNING)
    task = actions.enqueue(snapshot.microvm, "snapshot_delete", actor, snapshot_id=snapshot.id)
    snapshot.status = "deleting"
    session.flush()
    return task
