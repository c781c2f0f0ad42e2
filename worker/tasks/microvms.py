"""Tasks of micro VMs: create, start, stop, restart, pause, resume, destroy. Each may run twice."""

import time
from contextlib import suppress
from datetime import datetime

import structlog

from panel.core import jobs
from panel.core.db import on_commit, session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import get_message, message
from panel.services.microvms import boots, expiry, read, state_reports
from worker.engine.registry import periodic, task_handler
from worker.engine.runner import TASK_WAIT_INTERVAL_SECONDS, roll_back
from worker.nodes import base
from worker.nodes.base import GiB, Machine, NodeError, NotOnNode, Power, Refused, Unreachable
from worker.sync.node_sync import connect_node
from worker.tasks import microvm_files, microvm_network

log = structlog.get_logger()

SHUTDOWN_TIMEOUT_SECONDS = 10
"""Seconds that a guest may take to turn itself off, before it is powered off."""
CLOCK_COMMAND_SECONDS = 5
"""Seconds that a guest may take to set its clock."""
EXPIRY_INTERVAL_SECONDS = 2


def get_microvm(work):
    """Return the micro VM, read again. Raise when it is to be destroyed, because that task cleans up."""
    microvm = read.find_by_id(work.task.resource_id)
    if microvm is None:
        raise NotFound(message("The micro VM was destroyed in the meantime."))
    if microvm.state == "destroying":
        raise Conflict(message("The micro VM is being destroyed."))
    return microvm


def record_state(work, state):
    """Record how the task leaves the micro VM. The row changed meanwhile if its owner asked for its removal."""
    for microvm in read.lock(work.task.resource_id):
        state_reports.record_state(microvm, state)


def on_create_failed(row, error):
    for microvm in read.lock(row.resource_id):
        state_reports.record_create_failure(microvm, error)


def on_action_failed(row, error):
    for microvm in read.lock(row.resource_id):
        state_reports.record_failure(microvm, row.arguments["before"], error)


def on_pause_failed(row, error):
    on_action_failed(row, error)
    expires_at = row.arguments["expires_at"]
    for microvm in read.lock(row.resource_id):
        state_reports.postpone_expiry(microvm, expires_at and datetime.fromisoformat(expires_at))


def on_destroy_failed(row, error):
    for microvm in read.lock(row.resource_id):
        state_reports.record_destroy_failure(microvm, error)


def build_disk(microvm):
    return base.Disk(microvm.storage.name, microvm.disk_name, microvm.disk_gb * GiB)


def build_spec(microvm):
    """Return the machine spec. A micro VM is reached through its channel only, never by its network interface."""
    pool, key = microvm.storage.name, microvm.boot["key"]
    kernel_files = (base.Disk(pool, make_name(key), 0) for make_name in KERNEL_FILE_NAMES)
    return Machine(
        id=microvm.id,
        name=microvm.node_name,
        cpu_cores=microvm.cpu_cores,
        memory_mb=microvm.memory_mb,
        disks=(build_disk(microvm),),
        nics=microvm_network.build_nics(microvm),
        vnc=False,
        kernel=base.Kernel(*kernel_files, microvm.boot["options"]),
        channel=True,
        cpu_quota=100 * microvm.cpu_cores,
    )


KERNEL_FILE_NAMES = (microvm_files.make_kernel_name, microvm_files.make_initrd_name)


@task_handler("microvm_create", on_failure=on_create_failed, is_requeued_early=True)
def create(work):
    """Continue the machine that was taken from a warm pool, or create one from the image and start it."""
    microvm = get_microvm(work)
    is_continued = work.task.arguments.get("is_warm") and continue_member(work, microvm)
    if not is_continued:
        microvm = get_microvm(work)
        create_machine(work, microvm, microvm_files.get_image(microvm))
    for locked in read.lock(microvm.id):
        state_reports.record_state(locked, "running")
        if not is_continued:
            boots.begin(locked)


def create_machine(work, microvm, image):
    """Create and start the machine of a micro VM or of a member of a pool."""
    microvm.boot = {"key": image.files_key, "options": image.kernel_options}  # it may have been built again since
    work.step(message("Preparing"), 2)
    microvm_files.ensure_files(work, image, microvm.storage.name)

    work.step(message("Creating the disk"), 50)
    disk = build_disk(microvm)
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(disk, microvm_files.build_disk_image(image))

    work.step(message("Defining the machine"), 70)
    work.undo("delete", microvm.id)
    microvm_network.ensure_network(work.node, microvm)
    work.node.define(build_spec(microvm))

    work.step(message("Starting"), 80)
    work.node.start(microvm.id)


def continue_member(work, microvm):
    """Start the machine from its saved memory, with the new owner's rules for its NICs. When that fails, delete it and
    return False."""
    disk, nics = build_disk(microvm), build_spec(microvm).nics
    work.undo("delete_disk", disk.pool, disk.name)
    work.undo("delete", microvm.id)
    work.step(message("Starting"), 80)
    try:
        if nics:
            microvm_network.ensure_network(work.node, microvm)
            work.node.update_nics(microvm.id, nics)
        work.node.start(microvm.id)
    except Unreachable:
        raise
    except NodeError as error:
        log.warning("pool_member_not_started", microvm=microvm.id, detail=error.detail)
        roll_back(work)
        return False
    return True


@task_handler("microvm_start", on_failure=on_action_failed)
def start(work):
    microvm = get_microvm(work)
    work.step(message("Starting"), 20)
    boot(work, microvm)


def boot(work, microvm):
    """Define and start the machine."""
    microvm_network.ensure_network(work.node, microvm)
    work.node.define(build_spec(microvm))
    work.node.start(microvm.id)
    record_state(work, "running")


@task_handler("microvm_stop", on_failure=on_action_failed)
def stop(work):
    turn_off(work, get_microvm(work))
    record_state(work, "stopped")


def turn_off(work, microvm, seconds=SHUTDOWN_TIMEOUT_SECONDS):
    """Ask the guest to turn itself off, and power it off when it does not."""
    work.step(message("Asking the guest to shut down"), 20)
    with suppress(Refused):
        work.node.shutdown(microvm.id)
    ends_at = time.monotonic() + seconds
    while work.node.power(microvm.id) is not Power.off:
        if time.monotonic() >= ends_at:
            work.step(message("The guest did not respond: powering off"), 60)
            work.node.power_off(microvm.id)
            return
        work.check()
        time.sleep(TASK_WAIT_INTERVAL_SECONDS)


@task_handler("microvm_restart", on_failure=on_action_failed)
def restart(work):
    microvm = get_microvm(work)
    turn_off(work, microvm)
    work.step(message("Starting"), 70)
    boot(work, microvm)


@task_handler("microvm_pause", on_failure=on_pause_failed)
def pause(work):
    microvm = get_microvm(work)
    work.step(message("Saving the memory"), 20)
    work.node.save(microvm.id)
    record_state(work, "paused")


@task_handler("microvm_resume", on_failure=on_action_failed)
def resume(work):
    """Continue from the saved memory. Without it the micro VM is stopped, and a start boots it."""
    microvm = get_microvm(work)
    work.step(message("Resuming"), 20)
    if work.node.power(microvm.id) is Power.off and not work.node.has_saved_state(microvm.id):
        error = message("The saved memory is gone. Start the micro VM to boot it from its disk.")
        for locked in read.lock(microvm.id):
            state_reports.record_state(locked, "stopped", error)
        session.commit()
        raise NodeError(error)
    microvm_network.ensure_network(work.node, microvm)
    work.node.start(microvm.id)
    record_state(work, "running")
    notify_set_clock(microvm.id)


def notify_set_clock(microvm_id):
    """Have the guest's clock set after the commit: it shows the time when the memory was saved."""
    on_commit(lambda: jobs.enqueue_call("worker.tasks.microvms.set_clock", microvm_id))


def set_clock(microvm_id):
    """Set the guest's clock. A guest without an agent keeps its own time."""
    microvm = read.find_by_id(microvm_id)
    if microvm is None or microvm.state != "running":
        return session.rollback()
    node = connect_node(microvm.hypervisor_id)
    session.commit()
    with suppress(NodeError):
        node.agent_run(microvm_id, ["date", "-u", "-s", f"@{time.time():.0f}"], deadline=CLOCK_COMMAND_SECONDS)


@task_handler("microvm_destroy", on_failure=on_destroy_failed, is_requeued_early=True)
def destroy(work):
    """Delete machine and disk from the node and end the row. What is missing on the node counts as deleted."""
    microvm = read.find_by_id(work.task.resource_id)
    if microvm is None:
        return
    pool, disk_name = microvm.storage.name, microvm.disk_name
    try:
        work.step(message("Removing the machine"), 20)
        work.node.delete(microvm.id)
        work.step(message("Deleting the disk"), 60)
        with suppress(NotOnNode):  # the node may have been reinstalled and not even have the pool
            work.node.delete_disk(pool, disk_name)
    except NodeError as error:
        raise type(error)(message("{error} It is tried again.", error=get_message(error)), error.detail) from error
    for locked in read.lock(microvm.id):
        state_reports.on_destroyed(locked)


@periodic(seconds=EXPIRY_INTERVAL_SECONDS)
def end_expired():
    """Pause or destroy micro VMs whose time-out has passed."""
    expiry.end_expired()
    session.commit()


@periodic(seconds=10)
def retry_destroys():
    """Request due removals again. Also finds micro VMs whose task was lost."""
    expiry.retry_destroys()
    session.commit()
