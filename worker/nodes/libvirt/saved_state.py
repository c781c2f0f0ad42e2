"""Saved states: libvirt's managed save. The state contains the definition with which the machine continues."""

import libvirt

from panel.core.messages import message
from worker.nodes.base import Refused


def save(connection: libvirt.virConnect, machine_id: str) -> None:
    """Save the machine, to continue running at the next start even if it is suspended now."""
    domain = connection.lookupByUUIDString(machine_id)
    try:
        domain.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID or domain.isActive():
            raise
        if not domain.hasManagedSaveImage():
            raise Refused(message("The machine is off."), f"machine {machine_id}") from error


def is_present(connection: libvirt.virConnect, machine_id: str) -> bool:
    return bool(connection.lookupByUUIDString(machine_id).hasManagedSaveImage())


def delete(connection: libvirt.virConnect, machine_id: str) -> None:
    domain = connection.lookupByUUIDString(machine_id)
    if domain.hasManagedSaveImage():
        domain.managedSaveRemove()


def ensure_absent(domain: libvirt.virDomain) -> None:
    """Raise `Refused` for a machine with a saved state, which would not have what is about to be changed."""
    if domain.hasManagedSaveImage():
        raise Refused(message("The machine's memory is saved. Start it first."), f"machine {domain.UUIDString()}")


def is_restored(domain: libvirt.virDomain) -> bool:
    """Return whether the machine has its saved memory again and has not continued yet. One that was suspended is paused
    for another reason."""
    return domain.state() == [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION]
