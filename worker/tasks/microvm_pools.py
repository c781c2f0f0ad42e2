"""Tasks of warm pools: boot and save a member, remove one. Each may run twice."""

import time
from contextlib import suppress

from panel.core.db import session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.services.microvms import pool_members
from worker.engine.registry import periodic, task_handler
from worker.guest.sandbox_health import wait_for_daemon
from worker.nodes.base import NotOnNode
from worker.tasks import microvm_files
from worker.tasks.microvms import build_disk, create_machine

REFILL_INTERVAL_SECONDS = 5
GUEST_START_SECONDS = 300
"""Seconds within which the daemon of a booting member answers."""
SETTLE_SECONDS = 0.5
"""Seconds that the guest has to notice the end of the channel, so that it continues without that work."""


def get_booting_member(work):
    """Return the member, read again. Raise when it is no longer wanted."""
    member = pool_members.find_by_id(work.task.resource_id)
    if member is None or member.state != "booting":
        raise Conflict(message("The member is not needed any more."))
    return member


def on_boot_failed(row, error):
    for member in pool_members.lock(row.resource_id):
        pool_members.record_boot_failure(member, error)


def on_remove_failed(row, error):
    for member in pool_members.lock(row.resource_id):
        pool_members.record_removal_failure(member)


@task_handler("microvm_pool_boot", on_failure=on_boot_failed)
def boot(work):
    """Boot a machine without an identity and save it when its daemon answers."""
    member = get_booting_member(work)
    create_machine(work, member, microvm_files.get_image(member))
    work.step(message("Waiting for the guest"), 85)

    def check():
        work.check_interruptible()
        get_booting_member(work)
        session.commit()

    wait_for_daemon(work.node.open_channel(member.id), check, GUEST_START_SECONDS)
    time.sleep(SETTLE_SECONDS)
    work.step(message("Saving the memory"), 90)
    work.node.save(member.id)
    for locked in pool_members.lock(member.id):
        pool_members.record_ready(locked)


@task_handler("microvm_pool_remove", on_failure=on_remove_failed)
def remove(work):
    """Delete machine and disk from the node, then the row. What is missing on the node counts as deleted."""
    member = pool_members.find_by_id(work.task.resource_id)
    if member is None:
        return
    disk = build_disk(member)
    work.step(message("Removing the machine"), 20)
    work.node.delete(member.id)
    work.step(message("Deleting the disk"), 60)
    with suppress(NotOnNode):  # the node may have been reinstalled and not even have the pool
        work.node.delete_disk(disk.pool, disk.name)
    for locked in pool_members.lock(member.id):
        pool_members.delete(locked)


@periodic(seconds=REFILL_INTERVAL_SECONDS)
def refill():
    """Request the next boots and removals of all nodes with warm pools."""
    hypervisor_ids = pool_members.list_hypervisor_ids()
    session.commit()
    for hypervisor_id in hypervisor_ids:
        pool_members.refill(hypervisor_id)
        session.commit()
