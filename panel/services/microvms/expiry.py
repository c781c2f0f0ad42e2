"""Ending micro VMs whose time-out has passed, and finding those whose removal was lost."""

from sqlalchemy import Select, exists, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Microvm, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services.microvms import actions, timeouts

EXPIRY_ACTOR = "system"
MAX_ENDS_PER_RUN = 100


def end_expired() -> int:
    """Pause or destroy micro VMs whose time-out has passed. Return how many were looked at."""
    query = select(Microvm).where(*timeouts.list_due_conditions()).order_by(Microvm.expires_at).limit(MAX_ENDS_PER_RUN)
    rows = session.scalars(query.with_for_update(of=Microvm, skip_locked=True)).all()
    for microvm in rows:
        try:
            apply_timeout(microvm)
        except Conflict:  # a task runs: the next call tries again
            continue
    return len(rows)


def apply_timeout(microvm: Microvm) -> None:
    """Do what the micro VM's time-out says. One that does not run cannot be paused and stays as it is."""
    if microvm.on_timeout == "kill":
        actions.destroy(microvm, actor=EXPIRY_ACTOR)
    elif microvm.state == "running":
        actions.pause(microvm, actor=EXPIRY_ACTOR)
    elif microvm.state != "starting":
        microvm.expires_at = None


def select_undestroyed() -> Select[Microvm]:
    """Select micro VMs that are due for another attempt to destroy them, without an open task that does so."""
    is_requested = exists().where(
        Task.resource_id == Microvm.id, Task.kind == "microvm_destroy", Task.status.in_(OPEN_STATUSES)
    )
    return select(Microvm).where(Microvm.next_destroy_at <= clock.now(), ~is_requested)


def retry_destroys() -> int:
    """Request due removals again. Return how many."""
    query = select_undestroyed().order_by(Microvm.next_destroy_at).limit(MAX_ENDS_PER_RUN)
    rows = session.scalars(query.with_for_update(of=Microvm, skip_locked=True)).all()
    for microvm in rows:
        microvm.next_destroy_at = clock.now() + actions.DESTROY_CHECK_DELAY
        actions.enqueue(microvm, "destroy", EXPIRY_ACTOR, lock="final")
    return len(rows)
