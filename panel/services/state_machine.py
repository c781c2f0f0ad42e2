"""Which action is allowed in which state of an instance, and the reason otherwise (API reference: actions by state)."""

from panel.core.errors import Conflict, Problem, Unavailable
from panel.core.messages import message
from panel.models import Instance

TASK_RUNNING = "task_running"

BLOCKED_IN_STATE = {
    # action: {state: reason}; other states allow it, `pending` is handled in action_error()
    "start": {"suspended": "suspended", "migrating": TASK_RUNNING},
    "stop": {"suspended": "suspended", "migrating": TASK_RUNNING},
    "shutdown": {"suspended": "suspended", "migrating": TASK_RUNNING},
    "restart": {"suspended": "suspended", "migrating": TASK_RUNNING, "stopped": "not_running"},
    "poweroff": {"suspended": "suspended", "migrating": TASK_RUNNING},
    "deploy": {
        "running": "already_deployed",
        "stopped": "already_deployed",
        "suspended": "suspended",
        "migrating": TASK_RUNNING,
    },
    "reinstall": {"suspended": "suspended", "migrating": TASK_RUNNING},
    "reset_password": {"suspended": "suspended", "migrating": TASK_RUNNING, "stopped": "not_running"},
    "ssh_key_inject": {"suspended": "suspended", "migrating": TASK_RUNNING, "stopped": "not_running"},
    "docker": {"suspended": "suspended", "migrating": TASK_RUNNING, "stopped": "not_running"},
    "change_plan": {"suspended": "suspended", "migrating": TASK_RUNNING},
    "disk": {"suspended": "suspended", "migrating": TASK_RUNNING},
    "destroy": {"migrating": TASK_RUNNING},
    "snapshot": {"suspended": "suspended", "migrating": TASK_RUNNING},
    "backup": {"migrating": TASK_RUNNING},
    "restore": {"migrating": TASK_RUNNING},
    "suspend": {"migrating": TASK_RUNNING},
    "unsuspend": {"migrating": TASK_RUNNING},
    "repair": {"migrating": TASK_RUNNING},
    "migrate": {"migrating": TASK_RUNNING},
}

PROTECTED_ACTIONS = ("destroy", "reinstall")
"""Actions that are refused while protection is on."""

ALLOWED_WHILE_PENDING = ("destroy", "suspend", "unsuspend")
"""Actions that are allowed before the instance is deployed."""

REASON_MESSAGES = {
    TASK_RUNNING: message("Another task is in progress. Try again when it has finished."),
    "suspended": message("The instance is suspended. Only an operator can resume it."),
    "not_running": message("The instance is not running. Start it first."),
    "already_deployed": message("The instance already has an operating system. Reinstall it to start over."),
    "not_deployed": message("The instance has no operating system yet. Deploy an image first."),
    "agent_unavailable": message("The guest agent does not answer. It has to be installed and running in the guest."),
    "hypervisor_unreachable": message("The hypervisor of the instance does not respond. Try again when it is back."),
    "rescue_active": message("The rescue system is active. Turn it off first."),
    "protection_enabled": message("Delete protection is on. Turn it off first."),
    "vnc_disabled": message("The console of this instance is turned off. Turn on VNC in its settings."),
    # live-snapshot sessions
    "already_active": message("A test session is active. Commit or discard it first."),
    "no_active_session": message("There is no test session. Start one first."),
    "session_creating": message("The test session is still being created. Wait until it is active."),
    "session_failed": message("The test session failed, so there is nothing to commit or discard. Start a new one."),
}
"""The sentence for each reason why an action on an instance is refused."""


def make_problem(reason: str) -> Problem:
    """Return the exception for a reason of `REASON_MESSAGES`."""
    return (Unavailable if reason == "hypervisor_unreachable" else Conflict)(REASON_MESSAGES[reason], reason=reason)


def ensure_no_error(reason: str | None) -> None:
    """Raise for a reason; do nothing for None."""
    if reason:
        raise make_problem(reason)


def ensure_not_suspended(instance: Instance) -> None:
    """Raise `suspended` for changes by the owner, which are all refused during a suspension."""
    if instance.suspended_reason:
        raise make_problem("suspended")


def action_error(instance: Instance, action: str, *, by_operator: bool = False) -> str | None:
    """Return the reason why the action is refused now, or None."""
    if action in PROTECTED_ACTIONS and instance.protection_enabled:
        return "protection_enabled"
    suspended_by_platform = instance.state == "suspended" and instance.suspended_reason != "user" and not by_operator
    if action == "destroy" and suspended_by_platform:
        return "suspended"
    if instance.state == "pending" and action not in ALLOWED_WHILE_PENDING:
        if instance.rebuilding:
            return TASK_RUNNING
        return None if action == "deploy" else "not_deployed"
    return BLOCKED_IN_STATE[action].get(instance.state)


def ensure_allowed(instance: Instance, action: str, *, by_operator: bool = False) -> None:
    """Raise when the action is refused now."""
    ensure_no_error(action_error(instance, action, by_operator=by_operator))
