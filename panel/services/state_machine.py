"""Which action is allowed in which state, and what the refusal says (API reference: actions by state)."""

from panel.core.errors import Conflict

BUSY = "task_running"

ACTIONS = {
    # action: {state: refusal reason}; states that are not named allow it, `pending` is decided in refusal()
    "start": {"suspended": "suspended", "migrating": BUSY},
    "stop": {"suspended": "suspended", "migrating": BUSY},
    "shutdown": {"suspended": "suspended", "migrating": BUSY},
    "restart": {"suspended": "suspended", "migrating": BUSY, "stopped": "not_running"},
    "poweroff": {"suspended": "suspended", "migrating": BUSY},
    "deploy": {
        "running": "already_deployed",
        "stopped": "already_deployed",
        "suspended": "suspended",
        "migrating": BUSY,
    },
    "reinstall": {"suspended": "suspended", "migrating": BUSY},
    "reset_password": {"suspended": "suspended", "migrating": BUSY, "stopped": "not_running"},
    "ssh_key_inject": {"suspended": "suspended", "migrating": BUSY, "stopped": "not_running"},
    "docker": {"suspended": "suspended", "migrating": BUSY, "stopped": "not_running"},
    "change_plan": {"suspended": "suspended", "migrating": BUSY},
    "disk": {"suspended": "suspended", "migrating": BUSY},
    "destroy": {"migrating": BUSY},
    "snapshot": {"suspended": "suspended", "migrating": BUSY},
    "suspend": {"migrating": BUSY},
    "unsuspend": {"migrating": BUSY},
    "repair": {"migrating": BUSY},
    "migrate": {"migrating": BUSY},
}

KEPT = ("destroy", "reinstall")
"""What protection stops."""

ALWAYS = ("destroy", "suspend", "unsuspend")
"""Allowed while the machine is being made."""

WORDS = {
    BUSY: "Another task is working on this instance. Wait until it has ended.",
    "suspended": "The instance is suspended. It has to be unsuspended first.",
    "not_running": "The instance is not running. Start it first.",
    "already_deployed": "The instance has an operating system already. Reinstall it to begin anew.",
    "not_deployed": "The instance has no operating system yet. Deploy an image first.",
    "agent_unavailable": "The guest agent does not answer. It has to be installed and running in the guest.",
    "hypervisor_unreachable": "The instance's node does not answer. Try again when it is back.",
    "rescue_active": "The rescue system is active. End it first.",
    "protection_enabled": "The instance is protected. Turn protection off first.",
}


def refuse_suspended(instance):
    """Raises `suspended` for what its owner may not do meanwhile: any change, whatever it changes."""
    if instance.suspended_reason:
        raise Conflict(WORDS["suspended"], reason="suspended")


def refusal(instance, action, *, by_operator=False):
    """The reason word why the action is refused now, or None."""
    if action in KEPT and instance.protection_enabled:
        return "protection_enabled"
    closed = instance.state == "suspended" and instance.suspended_reason != "user" and not by_operator
    if action == "destroy" and closed:
        return "suspended"
    if instance.state == "pending" and action not in ALWAYS:
        if instance.rebuilding:
            return BUSY
        return None if action == "deploy" else "not_deployed"
    return ACTIONS[action].get(instance.state)


def allow(instance, action, *, by_operator=False):
    """Raises the refusal, if there is one."""
    reason = refusal(instance, action, by_operator=by_operator)
    if reason:
        raise Conflict(WORDS[reason], reason=reason)
