"""libvirt's errors as the contract's errors."""

import contextlib
import errno
import time
from collections.abc import Callable, Iterator
from typing import Any

import libvirt

from panel.core.messages import message
from worker.nodes.base import AgentUnavailable, NoCapacity, NodeError, NotOnNode, Refused, Unreachable
from worker.nodes.libvirt.connection import is_alive

NOT_FOUND_MESSAGES = {
    libvirt.VIR_ERR_NO_DOMAIN: message("The hypervisor does not know this machine."),
    libvirt.VIR_ERR_NO_STORAGE_VOL: message("The hypervisor does not have this disk."),
    libvirt.VIR_ERR_NO_STORAGE_POOL: message("The hypervisor does not have this storage."),
    libvirt.VIR_ERR_NO_NETWORK: message("The hypervisor does not have this network."),
}

AGENT_UNAVAILABLE_CODES = (
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
    libvirt.VIR_ERR_AGENT_UNSYNCED,
    getattr(libvirt, "VIR_ERR_AGENT_COMMAND_TIMEOUT", None),  # newer versions have a separate code
)

POWER_OFF_NOTICED_SECONDS = 3
"""Seconds that libvirt takes at most to notice that a QEMU process ended."""

NO_CAPACITY_MESSAGES = ("No space left on device", "Cannot allocate memory", "Disk quota exceeded")


@contextlib.contextmanager
def ignore_missing() -> Iterator[None]:
    """Ignore errors about machines, volumes, pools or networks that do not exist."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() not in NOT_FOUND_MESSAGES:
            raise


def repeat_when_off(domain: libvirt.virDomain, change: Callable[[], Any]) -> Any:
    """Run `change`, and run it again if the machine was powered off meanwhile: QEMU's end interrupts its commands, and
    afterwards only the definition and the files need the change."""
    running = domain.isActive()
    try:
        return change()
    except libvirt.libvirtError:
        if not running or not has_ended(domain):
            raise
    return change()


def has_ended(domain: libvirt.virDomain) -> bool:
    deadline = time.monotonic() + POWER_OFF_NOTICED_SECONDS
    while domain.isActive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def translate_errors(connection: libvirt.virConnect, action_label: str) -> Iterator[None]:
    """Raise the contract's errors. `action_label` completes "could not …"."""
    try:
        yield
    except libvirt.libvirtError as error:
        raise to_node_error(error, action_label, lost=not is_alive(connection)) from error


def to_node_error(error: libvirt.libvirtError, action_label: str, lost: bool) -> NodeError:
    """Return the contract's error. On a lost connection it is always `Unreachable`, whatever the message: the outcome
    of the call is unknown."""
    code, detail = error.get_error_code(), str(error)
    if lost:
        return Unreachable(message("The connection to the hypervisor was lost."), f"{action_label}: {detail}")
    if code in NOT_FOUND_MESSAGES:
        return NotOnNode(NOT_FOUND_MESSAGES[code], f"{action_label}: {detail}")
    if code in AGENT_UNAVAILABLE_CODES:
        return AgentUnavailable(message("The guest agent does not answer."), f"{action_label}: {detail}")
    if is_full(error):
        return NoCapacity(
            message("The hypervisor does not have enough free space to {action}.", action=action_label), detail
        )
    return Refused(message("The hypervisor could not {action}.", action=action_label), detail)


def is_full(error: libvirt.libvirtError) -> bool:
    if error.get_error_code() == libvirt.VIR_ERR_SYSTEM_ERROR and error.get_int1() in (errno.ENOSPC, errno.EDQUOT):
        return True
    return any(message in str(error) for message in NO_CAPACITY_MESSAGES)
