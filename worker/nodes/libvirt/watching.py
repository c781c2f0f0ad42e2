"""Tells of changes as libvirt reports them."""

import contextlib
import queue
from collections.abc import Callable

import libvirt

from worker.nodes.base import Event, Power, Unreachable

LOOK = 0.5
"""Seconds between two looks whether to stop."""

MEANS = {
    libvirt.VIR_DOMAIN_EVENT_STARTED: Power.on,
    libvirt.VIR_DOMAIN_EVENT_RESUMED: Power.on,
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED: Power.paused,
    libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED: Power.paused,
    libvirt.VIR_DOMAIN_EVENT_STOPPED: Power.off,
    libvirt.VIR_DOMAIN_EVENT_CRASHED: Power.off,
    libvirt.VIR_DOMAIN_EVENT_UNDEFINED: None,
}
"""What a machine is after each kind of event. A shutdown that has only begun may end in a restart: it says nothing."""


class Watch:
    """Events arrive in libvirt's thread and are handed on in the watcher's, which may take its time with them."""

    def __init__(self, connection: libvirt.virConnect):
        self.connection = connection
        self.heard: queue.SimpleQueue = queue.SimpleQueue()
        self.number = connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self.hear, None)

    def hear(self, connection, domain, event, detail, _):
        if event == libvirt.VIR_DOMAIN_EVENT_UNDEFINED and detail == libvirt.VIR_DOMAIN_EVENT_UNDEFINED_RENAMED:
            return
        if event in MEANS:
            self.heard.put((domain.UUIDString(), MEANS[event]))

    def run(self, event: Event, stop: Callable[[], bool]):
        while not stop():
            with contextlib.suppress(queue.Empty):
                event(*self.heard.get(timeout=LOOK))
            if not self.connection.isAlive():
                raise Unreachable("The connection to the hypervisor was lost.", "lost while watching")

    def end(self, _):
        with contextlib.suppress(libvirt.libvirtError):
            self.connection.domainEventDeregisterAny(self.number)
