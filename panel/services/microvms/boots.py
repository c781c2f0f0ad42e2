"""The first boot of a micro VM: a guest that never answers fails like a create that failed.

A guest that has answered once is not checked again, and neither is one that was stopped, paused or restarted since.
"""

from datetime import timedelta

from sqlalchemy import exists, select

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Microvm, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services.microvms import state_reports

task_kind("microvm_boot_check", "Micro VM start check")

MAX_BOOT_MINUTES = 5
"""Minutes after the start of the machine within which its guest answers."""
CHECK_RETRY_DELAY = timedelta(minutes=1)
"""How much later a guest is asked again when its hypervisor could not ask it."""
MAX_CHECKS_PER_RUN = 100
CHECK_ACTOR = "system"
NO_ANSWER_MESSAGE = message("The guest did not answer within {minutes} minutes of its start.", minutes=MAX_BOOT_MINUTES)


def begin(microvm: Microvm) -> None:
    """Let a running micro VM that has just been booted have its guest checked."""
    if microvm.state == "running":
        microvm.boot_ends_at = clock.now() + timedelta(minutes=MAX_BOOT_MINUTES)


def is_answer_missing(microvm: Microvm) -> bool:
    """Return whether the guest has not answered since the first boot, as far as is known."""
    return microvm.state == "running" and microvm.boot_ends_at is not None


def request_checks() -> int:
    """Request a check of the micro VMs whose guests have not reported in time. Return how many."""
    is_requested = exists().where(
        Task.resource_id == Microvm.id, Task.kind == "microvm_boot_check", Task.status.in_(OPEN_STATUSES)
    )
    due = Microvm.boot_ends_at <= clock.now(), Microvm.state == "running", Microvm.ended_at.is_(None), ~is_requested
    query = select(Microvm).where(*due).order_by(Microvm.boot_ends_at).limit(MAX_CHECKS_PER_RUN)
    rows = session.scalars(query.with_for_update(of=Microvm, skip_locked=True)).all()
    for microvm in rows:
        jobs.enqueue(
            "microvm_boot_check",
            "microvm",
            microvm,
            lock="exclusive",
            actor=CHECK_ACTOR,
            hypervisor_id=microvm.hypervisor_id,
        )
    session.flush()
    return len(rows)


def record_answer(microvm: Microvm) -> None:
    """Record that the guest has answered."""
    microvm.boot_ends_at = None


def record_silence(microvm: Microvm) -> None:
    """Record that the micro VM failed, unless its guest has reported meanwhile."""
    if is_answer_missing(microvm):
        state_reports.record_create_failure(microvm, NO_ANSWER_MESSAGE)


def postpone(microvm: Microvm) -> None:
    """Have the guest checked again later."""
    if is_answer_missing(microvm):
        microvm.boot_ends_at = clock.now() + CHECK_RETRY_DELAY
