"""Changes of machines, as libvirt reports them."""

import contextlib
import queue
from collections.abc import Callable
from typing import Any

import libvirt

from panel.core.messages import message
from worker.nodes.base import MachineEventCallback, Power, Refused, Unreachable
from worker.nodes.libvirt.connection import KEEPALIVE_INTERVAL_SECONDS, MAX_KEEPALIVES_MISSED, has_event_loop, is_alive

STOP_POLL_INTERVAL_SECONDS = 0.5
"""Seconds between two checks whether to stop."""

POWER_BY_EVENT = {
    libvirt.VIR_DOMAIN_EVENT_STARTED: Power.on,
    libvirt.VIR_DOMAIN_EVENT_RESUMED: Power.on,
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED: Power.paused,
    libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED: Power.paused,
    libvirt.VIR_DOMAIN_EVENT_STOPPED: Power.off,
    libvirt.VIR_DOMAIN_EVENT_CRASHED: Power.off,
    libvirt.VIR_DOMAIN_EVENT_UNDEFINED: None,
}
"""The power state after each type of event. The start of a shutdown is not listed, because it may end in a restart."""


class EventStream:
    """Receives events on libvirt's thread and delivers them on the watcher's, which may be slow. The connection is used
    for nothing else, and no call is made on it once events may arrive."""

    def __init__(self, connection: libvirt.virConnect) -> None:
        if not has_event_loop():
            detail = "this process was forked from one that used libvirt; watch from that one or from a new one"
            raise Refused(message("Changes cannot be watched from here."), detail)
        self.connection = connection
        self.received: queue.SimpleQueue = queue.SimpleQueue()
        connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self.on_event, None)
        connection.setKeepAlive(KEEPALIVE_INTERVAL_SECONDS, MAX_KEEPALIVES_MISSED)

    def on_event(
        self, connection: libvirt.virConnect, domain: libvirt.virDomain, event: int, detail: int, _: Any
    ) -> None:
        if event == libvirt.VIR_DOMAIN_EVENT_UNDEFINED and detail == libvirt.VIR_DOMAIN_EVENT_UNDEFINED_RENAMED:
            return
        if event in POWER_BY_EVENT:
            self.received.put((domain.UUIDString(), POWER_BY_EVENT[event]))

    def run(self, event: MachineEventCallback, stop: Callable[[], bool]) -> None:
        while not stop():
            with contextlib.suppress(queue.Empty):
                event(*self.received.get(timeout=STOP_POLL_INTERVAL_SECONDS))
            if not is_alive(self.connection):
                raise Unreachable(message("The connection to the hypervisor was lost."), "lost while watching")
