"""Thawing guests' file systems: libvirt freezes and thaws them within one call, unless that call is interrupted."""

import contextlib

import libvirt

from worker.nodes.libvirt.machines import get_domain


def thaw(connection: libvirt.virConnect, machine_id: str) -> None:
    """Thaw the file systems; if they are not frozen this changes nothing. A guest without an agent cannot have been
    frozen."""
    domain = get_domain(connection, machine_id)
    if domain.isActive():
        with contextlib.suppress(libvirt.libvirtError):
            domain.fsThaw()
