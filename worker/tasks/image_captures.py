"""Making images of disks, and removing images."""

import hashlib
import os
from dataclasses import replace
from pathlib import PurePosixPath

from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Image
from panel.services.media import image_files
from worker.engine.registry import task_handler
from worker.nodes.base import Power, Refused
from worker.sync import node_sync
from worker.tasks.instances import POWER_TASKS, SUSPENSION_TASKS, get_instance
from worker.tasks.machine_spec import build_disk
from worker.tasks.media_downloads import temporary_file


def on_capture_failed(row, error):
    image = session.get(Image, row.arguments["image_id"])
    if image and image.status == "creating":
        image.status = "error"


class HashingWriter:
    """A file that knows the checksum of what was written to it."""

    def __init__(self, file):
        self.file, self.hash, self.size = file, hashlib.sha256(), 0

    def write(self, portion):
        self.file.write(portion)
        self.hash.update(portion)
        self.size += len(portion)


@task_handler("image_capture", on_failure=on_capture_failed, conflicts_with=(*POWER_TASKS, *SUSPENSION_TASKS))
def capture(work):
    """The node copies the disk, with all that it is based on, into one file; that comes to the panel's folder."""
    instance = get_instance(work)
    disk = build_disk(instance.disks[0])
    copy = replace(disk, name=f"capture-{work.task.id}.qcow2")
    get_image(work)
    overlaid = overlay_if_running(work, instance, disk)
    work.step("Copying the disk", 10)
    work.undo("delete_disk", copy.pool, copy.name)
    work.node.copy_disk(disk, copy, work.report_progress)
    if overlaid:
        work.step("Writing later changes into the disk", 40)
        work.node.merge_overlay(instance.id, disk.pool, disk.name)
    work.step("Storing the image", 50)
    store_image(work, copy)


def overlay_if_running(work, instance, disk):
    """Lets a machine that runs write into an overlay of the disk, which then is as it was at one moment: with the file
    systems frozen for that moment if the guest agent answers, else as after a power failure. Returns whether it did. A
    machine that is off, or turns off meanwhile, needs none: it is not started during the task."""
    if work.node.power(instance.id) is Power.off:
        return False
    work.undo("merge_overlay", instance.id, disk.pool, disk.name)
    work.undo("thaw_guest", instance.id)
    work.step("Holding the disk", 5)
    try:
        work.node.create_overlays(instance.id, [disk])
    except Refused:
        if work.node.power(instance.id) is not Power.off:
            raise
        return False
    return True


def store_image(work, copy):
    """Brings the copy into the panel's folder, as the image's file."""
    folder = node_sync.data_dir / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with temporary_file(folder) as (path, file):
        target = HashingWriter(file)
        work.node.read_disk(copy, target, work.report_progress)
        file.close()
        virtual_size, sha256 = image_files.read_virtual_size(path), target.hash.hexdigest()
        work.step("Removing the copy", 90)
        work.node.delete_disk(copy.pool, copy.name)
        image = get_image(work)
        image_files.mark_complete(image, sha256, virtual_size)
        image.size = target.size
        os.replace(path, folder / image.filename)


def get_image(work):
    image = session.get(Image, work.task.arguments["image_id"], populate_existing=True)
    if image is None:
        raise NotFound("The image was removed meanwhile.")
    return image


@task_handler("image_delete")
def delete(work):
    """Removes a copy from a node, unless disks are based on it, or the file from the panel's folder."""
    found = work.task.arguments
    if "filename" in found:
        work.step("Removing the file", 50)
        (node_sync.data_dir / "images" / PurePosixPath(found["filename"]).name).unlink(missing_ok=True)
        return
    work.step("Removing the copy", 50)
    try:
        work.node.delete_image(found["pool"], found["name"])
    except Refused as refusal:
        work.step(f"It stays there: {refusal}", 90)
