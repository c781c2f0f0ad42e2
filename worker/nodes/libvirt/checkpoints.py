"""Checkpoints: bitmaps in the disks that record what is written from a moment on."""

import contextlib
from collections.abc import Iterable, Iterator

import libvirt
from lxml import etree

from worker.nodes.base import Refused
from worker.nodes.libvirt import saved_state
from worker.nodes.libvirt.errors import ignore_missing
from worker.nodes.libvirt.monitor import run_monitor_command


def find_covered_disks(domain: libvirt.virDomain, name: str | None) -> set[str]:
    """Return the targets (`vda`) of the disks that the checkpoint covers; none when the machine does not have it."""
    if name is None:
        return set()
    try:
        checkpoint = domain.checkpointLookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_CHECKPOINT:
            raise
        return set()
    return set(etree.fromstring(checkpoint.getXMLDesc()).xpath("disks/disk[@checkpoint='bitmap']/@name"))


def delete_of_machine(connection: libvirt.virConnect, machine_id: str, retained: list[str]) -> None:
    with ignore_missing():
        domain = connection.lookupByUUIDString(machine_id)
        if domain.isActive() or not retained:
            delete(domain, retained)


def delete(domain: libvirt.virDomain, retained: Iterable[str] = ()) -> None:
    """Delete the checkpoints but those of `retained`, with their bitmaps, which only a running QEMU can delete."""
    checkpoints = domain.listAllCheckpoints()
    unwanted = [checkpoint for checkpoint in checkpoints if checkpoint.getName() not in set(retained)]
    if not unwanted:
        return
    with paused_if_off(domain):
        for checkpoint in unwanted:
            try:
                checkpoint.delete()
            except libvirt.libvirtError:  # its bitmap is missing or broken
                checkpoint.delete(libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)
        delete_broken_bitmaps(domain)


def delete_one(domain: libvirt.virDomain, name: str) -> None:
    """Delete the checkpoint of that name, if the running machine has it; its changes become those of the one before.
    If that is not possible, delete all checkpoints, because changes would be missing."""
    for checkpoint in domain.listAllCheckpoints():
        if checkpoint.getName() == name:
            try:
                checkpoint.delete()
            except libvirt.libvirtError:  # its bitmap is missing or broken
                delete(domain)
            return


@contextlib.contextmanager
def paused_if_off(domain: libvirt.virDomain) -> Iterator[None]:
    """Start a machine that is off, paused, for the duration of the block. Raises `Refused` if its memory is saved."""
    if domain.isActive():
        yield
        return
    saved_state.ensure_absent(domain)
    domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
    try:
        yield
    finally:
        domain.destroy()


def delete_disk_bitmaps(domain: libvirt.virDomain, path: str) -> None:
    """Delete the bitmaps of a disk of the running machine that is about to leave it: no checkpoint will use them."""
    for medium in run_monitor_command(domain, "query-block"):
        inserted = medium.get("inserted", {})
        for bitmap in inserted.get("dirty-bitmaps", ()) if inserted.get("file") == path else ():
            with contextlib.suppress(Refused):  # a job uses it
                run_monitor_command(
                    domain, "block-dirty-bitmap-remove", node=inserted["node-name"], name=bitmap["name"]
                )


def delete_broken_bitmaps(domain: libvirt.virDomain) -> None:
    """Delete bitmaps that a killed QEMU left: a snapshot could not be reverted with them."""
    for medium in run_monitor_command(domain, "query-block"):
        for bitmap in medium.get("inserted", {}).get("dirty-bitmaps", ()):
            if bitmap.get("inconsistent"):
                node = medium["inserted"]["node-name"]
                run_monitor_command(domain, "block-dirty-bitmap-remove", node=node, name=bitmap["name"])
