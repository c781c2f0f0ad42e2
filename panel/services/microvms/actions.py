"""What can be done with micro VMs: start, stop, restart, pause, resume, destroy, and changes of their rows.

A request changes the state at once to one of the states that end with the task: `starting`, `pausing`, `stopping`,
`destroying`.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import delete

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, Problem
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Microvm, MicrovmConnector, Task
from panel.services import usage
from panel.services.crud import update_fields
from panel.services.microvms import network, timeouts
from panel.services.state_machine import REASON_MESSAGES, TASK_RUNNING

task_kind("microvm_create", "New micro VM")
task_kind("microvm_start", "Micro VM start")
task_kind("microvm_stop", "Micro VM stop")
task_kind("microvm_restart", "Micro VM restart")
task_kind("microvm_pause", "Micro VM pause")
task_kind("microvm_resume", "Micro VM resume")
task_kind("microvm_destroy", "Micro VM destruction")

MAX_TIMEOUT_SECONDS = 30 * 24 * 3600
DESTROY_CHECK_DELAY = timedelta(minutes=1)
"""How long after a request to destroy a micro VM it is requested again, if its task was lost."""

BUSY_STATES = ("starting", "pausing", "stopping")
NEW_STATES = {"start": "starting", "stop": "stopping", "restart": "starting", "pause": "pausing", "resume": "starting"}
"""The state while an action is carried out."""

REASON_BY_FINAL_STATE = {"failed": "microvm_failed", "destroying": "microvm_destroying"}
"""The reason why every action is refused in states that only a removal ends."""
REASON_BY_STATE = {
    "start": {"running": "already_running", "paused": "microvm_paused"},
    "stop": {"stopped": "not_running", "paused": "microvm_paused"},
    "restart": {"stopped": "not_running", "paused": "microvm_paused"},
    "pause": {"stopped": "not_running", "paused": "already_paused"},
    "resume": {"running": "not_paused", "stopped": "not_paused"},
    "snapshot": {"paused": "microvm_paused"},
    "rollback": {},
}
"""The reason why an action is refused in a state; other states allow it, unless a task changes the state."""

MICROVM_REASON_MESSAGES = {
    TASK_RUNNING: REASON_MESSAGES[TASK_RUNNING],
    "already_running": message("The micro VM is already running."),
    "already_paused": message("The micro VM is already paused."),
    "not_running": message("The micro VM is not running. Start it first."),
    "microvm_paused": message("The micro VM is paused. Resume it first."),
    "not_paused": message("The micro VM is not paused."),
    "microvm_failed": message("The micro VM could not be created. Destroy it."),
    "microvm_destroying": message("The micro VM is being destroyed."),
}
"""The sentence for each reason why an action on a micro VM is refused."""


def action_error(microvm: Microvm, action: str) -> str | None:
    """Return the reason why the action is refused now, or None."""
    if microvm.state in BUSY_STATES:
        return TASK_RUNNING
    if microvm.state in REASON_BY_FINAL_STATE:
        return REASON_BY_FINAL_STATE[microvm.state]
    return REASON_BY_STATE[action].get(microvm.state)


def ensure_allowed(microvm: Microvm, action: str) -> None:
    """Raise when the action is refused now."""
    if reason := action_error(microvm, action):
        raise make_problem(reason)


def ensure_not_final(microvm: Microvm) -> None:
    """Raise when the micro VM failed or is to be destroyed."""
    if reason := REASON_BY_FINAL_STATE.get(microvm.state):
        raise make_problem(reason)


def ensure_not_busy(microvm: Microvm) -> None:
    """Raise while a task changes the micro VM's state, and when it failed or is to be destroyed."""
    ensure_allowed(microvm, "rollback")


def make_problem(reason: str) -> Problem:
    return Conflict(MICROVM_REASON_MESSAGES[reason], reason=reason)


def start(microvm: Microvm, *, actor: str) -> Task:
    """Boot a stopped micro VM. Its time-out starts again."""
    task = request_action(microvm, "start", actor)
    timeouts.request(microvm)
    return task


def stop(microvm: Microvm, *, actor: str) -> Task:
    return request_action(microvm, "stop", actor)


def restart(microvm: Microvm, *, actor: str) -> Task:
    return request_action(microvm, "restart", actor)


def pause(microvm: Microvm, *, actor: str) -> Task:
    """Store the memory of a running micro VM and turn it off. It does not expire while it is paused."""
    expires_at = microvm.expires_at and microvm.expires_at.isoformat()
    return request_action(microvm, "pause", actor, expires_at=expires_at)


def resume(microvm: Microvm, *, actor: str, timeout_seconds: int | None = None) -> Task:
    """Continue a paused micro VM where it was. Its time-out, or `timeout_seconds`, starts again."""
    ensure_valid_timeout(timeout_seconds)
    task = request_action(microvm, "resume", actor)
    microvm.timeout_seconds = timeout_seconds or microvm.timeout_seconds
    timeouts.request(microvm)
    session.flush()
    return task


def request_action(microvm: Microvm, action: str, actor: str, **arguments: Any) -> Task:
    """Enqueue an action's task and set the state that it has until then."""
    ensure_allowed(microvm, action)
    task = enqueue(microvm, action, actor, before=microvm.state, **arguments)
    set_state(microvm, NEW_STATES[action])
    session.flush()
    return task


def set_state(microvm: Microvm, state: str, error: str | None = None) -> None:
    microvm.state, microvm.error, microvm.state_changed_at = state, error, clock.now()
    microvm.boot_ends_at = None


def destroy(microvm: Microvm, *, actor: str) -> Task | None:
    """Destroy the micro VM with its disk and snapshots, in any state. Its connectors end at once.

    It is retried until nothing is left. A second call changes nothing and returns None.
    """
    if microvm.state == "destroying":
        return None
    usage.stop_metering(microvm)
    task = enqueue(microvm, "destroy", actor, lock="final")
    set_state(microvm, "destroying")
    microvm.expires_at, microvm.next_destroy_at = None, clock.now() + DESTROY_CHECK_DELAY
    session.flush()
    session.execute(delete(MicrovmConnector).where(MicrovmConnector.microvm_id == microvm.id))
    return task


def enqueue(microvm: Microvm, action: str, actor: str, *, lock: str = "exclusive", **arguments: Any) -> Task:
    task = jobs.enqueue(
        f"microvm_{action}",
        "microvm",
        microvm,
        lock=lock,
        actor=actor,
        hypervisor_id=microvm.hypervisor_id,
        arguments=arguments,
    )
    microvm.task_id = task.id
    session.flush()
    session.expire(microvm, ["latest_task"])
    return task


def ensure_valid_timeout(seconds: int | None) -> None:
    if seconds is not None and not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        sentence = message("The time-out is 1 to {maximum} seconds.", maximum=MAX_TIMEOUT_SECONDS)
        raise Invalid(sentence, timeout_seconds=sentence)


def set_timeout(microvm: Microvm, seconds: int | None, *, only_extend: bool = False) -> Microvm:
    """Let the micro VM expire that many seconds from now, or never. `only_extend`: never earlier than before.

    A paused one does not expire; the time-out counts from its next resume.
    """
    ensure_valid_timeout(seconds)
    microvm.timeout_seconds = seconds
    if microvm.state not in ("pausing", "paused", "destroying"):
        expires_at = timeouts.compute_expiry(seconds)
        is_earlier = microvm.expires_at is None or (expires_at is not None and expires_at < microvm.expires_at)
        if not (only_extend and is_earlier):
            microvm.expires_at = expires_at
        if not only_extend:
            microvm.is_timeout_pending = False
    session.flush()
    return microvm


def update(microvm: Microvm, changes: Mapping[str, Any], *, actor: str) -> Microvm:
    """Change name, tags, metadata (`meta`), `on_timeout`, time-out and network of a micro VM."""
    fields = dict(changes)
    if network_changes := {name: fields.pop(name) for name in network.CUSTOMER_FIELDS if name in fields}:
        network.update(microvm, network_changes, actor=actor)
    if "timeout_seconds" in fields:
        set_timeout(microvm, fields.pop("timeout_seconds"))
    if "tags" in fields:
        fields["tags"] = sorted(set(fields["tags"]))
    return update_fields(microvm, fields)
