"""Restoring backups.

The restored disks are written beside the present ones. Only when they are complete, the machine is powered off, defined
with them and started; then the rows switch over, and the rollback steps become the deletion of the earlier disks. Until
then a failure deletes the new disks. When the machine was powered off already, another task returns it to its disks:
the definition is not a rollback step, because it is made of rows.
"""

import json
import os
from dataclasses import replace

from panel.core import clock, context, jobs
from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Image
from panel.services import instances
from panel.services.backup_operations import RECORDING_PROGRESS
from panel.services.docker_deployments import state_reports as docker_deployments
from panel.services.instances import state_reports
from panel.services.media import image_files
from worker.backups.firmware_states import pack_state, unpack_state
from worker.backups.restoring import StoredDisk
from worker.engine.registry import task_handler
from worker.engine.runner import roll_back
from worker.nodes import base
from worker.nodes.base import GiB, Power
from worker.nodes.libvirt.qcow2 import Qcow2File
from worker.tasks.backup_contents import write_disks
from worker.tasks.backup_reading import open_backup
from worker.tasks.backup_repositories import translated_errors
from worker.tasks.image_captures import HashingWriter
from worker.tasks.instance_backups import find_backup
from worker.tasks.instances import get_instance, power_off, record_power_after_call
from worker.tasks.machine_spec import build_disk, build_spec, get_seed_name, is_panel_built, make_seed_name
from worker.tasks.media_downloads import temporary_file

COPY_BLOCK_BYTES = 4 * 1024**2


def make_new_name(instance, disk, task_id):
    """Return the name of the restored disk, the same for each attempt. That of a first disk tells whether the panel
    made it, as before."""
    mark = "" if disk.position or is_panel_built(instance) else "r"
    return f"{instance.name}-{mark}{disk.position}-{task_id[-12:]}.qcow2"


def make_new_names(instance, row):
    return {
        disk.id: make_new_name(instance, disk, row.id) for disk in instance.disks if disk.id in row.arguments["disks"]
    }


def is_switched_over(instance, names):
    return any(disk.name == names.get(disk.id) for disk in instance.disks)


def on_restore_failed(row, error):
    """Return the machine to its disks if it was powered off for the restore."""
    instance = instances.find_by_id(row.resource_id)
    if instance and "was_on" in row.arguments and not is_switched_over(instance, make_new_names(instance, row)):
        arguments = {name: row.arguments[name] for name in ("was_on", "is_started") if name in row.arguments}
        jobs.enqueue(
            "backup_restore_revert",
            "instance",
            instance,
            lock="final",
            actor="system",
            hypervisor_id=instance.hypervisor_id,
            arguments=arguments,
            secret=row.secret,
        )


@task_handler("backup_restore", on_failure=on_restore_failed)
def restore(work):
    instance = get_instance(work)
    names = make_new_names(instance, work.task)
    if is_switched_over(instance, names):
        return  # a new attempt runs the rollback steps first, which deleted the earlier disks
    if work.task.arguments.get("is_started"):
        power_off(work, message("Stopping"), 2)
    manifest = write_new_disks(work, names)
    is_system_restored = get_instance(work).disks[0].id in names
    seed = copy_seed(work, names)
    queried_at = replace_machine(work, names, seed, manifest.firmware if is_system_restored else {})
    switch_over(work, names, seed)
    if queried_at:
        record_power_after_call(work, "on", queried_at)
    docker_deployments.invalidate(get_instance(work))
    work.step(message("Removing the earlier disks"), RECORDING_PROGRESS)
    roll_back(work)


def write_new_disks(work, names):
    """Write the restored disks beside the present ones."""
    stored_names = work.task.arguments["disks"]
    targets = {
        stored_names[disk.id]: base.Disk(disk.storage.name, names[disk.id], disk.size * GiB)
        for disk in get_instance(work).disks
        if disk.id in names
    }
    return write_disks(work, targets)


def copy_seed(work, names):
    """Copy the first-boot medium, whose name follows that of the first disk. Return the copy, or None."""
    instance = get_instance(work)
    first_disk = instance.disks[0]
    if first_disk.id not in names or not is_panel_built(instance):
        return None
    seed = base.Disk(first_disk.storage.name, get_seed_name(instance), 0)
    copy = replace(seed, name=make_seed_name(names[first_disk.id]))
    work.undo("delete_disk", copy.pool, copy.name)
    work.step(message("Copying the first-boot configuration"), 75)
    work.node.copy_media(seed, work.node.node, copy)
    return copy


def replace_machine(work, names, seed, firmware):
    """Power the machine off, define it with the restored disks, and start it if it was on. Return the time before the
    start, or None. `firmware`: the stored state of its firmware and TPM."""
    work.step(message("Stopping"), 80)
    spec = build_restored_spec(get_instance(work), names, seed)
    was_on = work.node.power(spec.id) is not Power.off
    if was_on or work.task.arguments.get("was_on"):
        note(work, was_on=True)
        work.node.delete_checkpoints(spec.id)
        if was_on:
            power_off(work, message("Stopping"), 80)
        work.step(message("Defining the machine"), 85)
        work.node.define(spec)
        replace_firmware_state(work, spec.id, firmware)
        note(work, is_started=True)
        work.step(message("Starting"), 90)
        queried_at = clock.now()
        work.node.start(spec.id)
        return queried_at
    note(work, was_on=False)
    work.node.delete_checkpoints(spec.id)
    work.step(message("Defining the machine"), 85)
    work.node.define(spec)
    replace_firmware_state(work, spec.id, firmware)
    return None


def replace_firmware_state(work, machine_id, firmware):
    """Write the stored state. The earlier one is kept with the task, for the one that returns to the earlier disks."""
    if not firmware:
        return
    if work.task.secret is None:
        earlier = pack_state(work.node.read_firmware_state(machine_id))
        work.update(secret=json.dumps(earlier))
        session.commit()
    work.node.write_firmware_state(machine_id, unpack_state(firmware))


def note(work, **facts):
    """Store facts for another attempt, and for the failure handler."""
    work.update(arguments=work.task.arguments | facts)
    session.commit()


def build_restored_spec(instance, names, seed):
    """Return the machine's spec with the restored disks instead of the present ones."""
    new_names = {disk.name: names[disk.id] for disk in instance.disks if disk.id in names}
    spec = build_spec(instance)
    disks = tuple(replace(disk, name=new_names.get(disk.name, disk.name)) for disk in spec.disks)
    return replace(spec, disks=disks, media=spec.media | ({"seed": seed} if seed else {}))


def switch_over(work, names, seed):
    """Make the rows describe the restored disks, and the deletion of the earlier ones the rollback steps, in one
    transaction."""
    [instance] = state_reports.lock_instances(work.task.resource_id)
    old_volumes = [build_disk(disk) for disk in instance.disks if disk.id in names]
    if seed:
        old_volumes.append(base.Disk(seed.pool, get_seed_name(instance), 0))
    for disk in instance.disks:
        disk.name = names.get(disk.id, disk.name)
    work.update(rollback_steps=[["delete_disk", disk.pool, disk.name] for disk in old_volumes])
    session.commit()


@task_handler("backup_restore_revert")
def revert(work):
    """Define the machine with the disks of its rows again, and start it if it was on."""
    instance, arguments = get_instance(work), work.task.arguments
    work.step(message("Returning to the earlier disks"), 20)
    if arguments.get("is_started") and work.node.power(instance.id) is not Power.off:
        power_off(work, message("Stopping"), 40)
    work.node.define(build_spec(get_instance(work)))
    if work.task.secret:
        work.node.write_firmware_state(work.task.resource_id, unpack_state(json.loads(work.task.secret)))
    if arguments["was_on"]:
        work.step(message("Starting"), 60)
        queried_at = clock.now()
        work.node.start(work.task.resource_id)
        record_power_after_call(work, "on", queried_at)


def get_image(work):
    image = session.get(Image, work.task.resource_id, populate_existing=True)
    if image is None:
        raise NotFound(message("The image was deleted in the meantime."))
    return image


def on_image_failed(row, error):
    image = session.get(Image, row.resource_id)
    if image and image.status == "creating":
        image.status = "error"


@task_handler("backup_image", on_failure=on_image_failed)
def create_image(work):
    """Write a disk of a backup to a file in the panel's data directory, as an image."""
    backup = find_backup(work.task)
    if backup is None:
        raise NotFound(message("The backup was deleted in the meantime."))
    get_image(work)
    folder = context.current().config.data_dir / "images"
    folder.mkdir(parents=True, exist_ok=True)
    work.step(message("Connecting to the storage"), 5)
    with open_backup(backup) as (repository, manifest), temporary_file(folder) as (path, file):
        entry = manifest.find_disk(work.task.arguments["disk"])
        if entry is None:
            raise Invalid(message("The backup is no longer in the storage."), reason="backup_missing")
        work.step(message("Storing the image"), 10)
        writer = HashingWriter(file)
        with translated_errors():
            source = Qcow2File(StoredDisk(repository, entry), entry.size)
            while block := source.read(COPY_BLOCK_BYTES):
                writer.write(block)
                work.report_progress(writer.size, source.size)
        file.close()
        image = get_image(work)
        image_files.mark_complete(image, writer.hash.hexdigest(), entry.size)
        image.size = writer.size
        os.replace(path, folder / image.filename)
