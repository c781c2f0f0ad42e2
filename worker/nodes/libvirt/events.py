"""Tells of changes as libvirt reports them."""

import contextlib
import queue
from collections.abc import Callable

import libvirt

from worker.nodes.base import MachineEventCallback, Power, Refused, Unreachable
from worker.nodes.libvirt.connection import KEEPALIVE_INTERVAL_SECONDS, MAX_KEEPALIVES_MISSED, is_alive, runs_event_loop

STOP_POLL_INTERVAL_SECONDS = 0.5
"""Seconds between two looks whether to stop."""

POWER_BY_EVENT = {
    libvirt.VIR_DOMAIN_EVENT_STARTED: Power.on,
    libvirt.VIR_DOMAIN_EVENT_RESUMED: Power.on,
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED: Power.paused,
    libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED: Power.paused,
    libvirt.VIR_DOMAIN_EVENT_STOPPED: Power.off,
    libvirt.VIR_DOMAIN_EVENT_CRASHED: Power.off,
    libvirt.VIR_DOMAIN_EVENT_UNDEFINED: None,
}
"""What a machine is after each kind of event. A shutdown that has only begun may end in a restart: it says nothing."""


class EventStream:
    """Events arrive in libvirt's thread and are handed on in the watcher's, which may take its time with them. The line
    is the watch's own, and no call is made on it once events may come."""

    def __init__(self, line: libvirt.virConnect):
        if not runs_event_loop():
            detail = "this process was forked from one that used libvirt; watch from that one or from a new one"
            raise Refused("Changes cannot be watched from here.", detail)
        self.line = line
        self.heard: queue.SimpleQueue = queue.SimpleQueue()
        line.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self.on_event, None)
        line.setKeepAlive(KEEPALIVE_INTERVAL_SECONDS, MAX_KEEPALIVES_MISSED)

    def on_event(self, line, domain, event, detail, _):
        if event == libvirt.VIR_DOMAIN_EVENT_UNDEFINED and detail == libvirt.VIR_DOMAIN_EVENT_UNDEFINED_RENAMED:
            return
        if event in POWER_BY_EVENT:
            self.heard.put((domain.UUIDString(), POWER_BY_EVENT[event]))

    def run(self, event: MachineEventCallback, stop: Callable[[], bool]):
        while not stop():
            with contextlib.suppress(queue.Empty):
                event(*self.heard.get(timeout=STOP_POLL_INTERVAL_SECONDS))
            if not is_alive(self.line):
                raise Unreachable("The connection to the hypervisor was lost.", "lost while watching")
