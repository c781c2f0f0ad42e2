"""Tasks that make images of disks, and that delete images."""

import hashlib
import os
from dataclasses import replace
from pathlib import PurePosixPath

from panel.core import context
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Image
from panel.services.media import image_files
from worker.engine.registry import task_handler
from worker.nodes.base import Power, Refused
from worker.tasks.instances import POWER_TASKS, SUSPENSION_TASKS, get_instance
from worker.tasks.machine_spec import build_disk
from worker.tasks.media_downloads import temporary_file


def on_capture_failed(row, error):
    image = session.get(Image, row.arguments["image_id"])
    if image and image.status == "creating":
        image.status = "error"


class HashingWriter:
    """Writes to a file and computes the checksum and size of what was written."""

    def __init__(self, file):
        self.file, self.hash, self.size = file, hashlib.sha256(), 0

    def write(self, chunk):
        self.file.write(chunk)
        self.hash.update(chunk)
        self.size += len(chunk)


@task_handler("image_capture", on_failure=on_capture_failed, conflicts_with=(*POWER_TASKS, *SUSPENSION_TASKS))
def capture(work):
    """Copy the disk and its backing files into one file on the node, then move that to the panel's data directory."""
    instance = get_instance(work)
    disk = build_disk(instance.disks[0])
    copy = replace(disk, name=f"capture-{work.task.id}.qcow2")
    get_image(work)
    has_overlay = overlay_if_running(work, instance, disk)
    work.step(message("Copying the disk"), 10)
    work.undo("delete_disk", copy.pool, copy.name)
    work.node.copy_disk(disk, copy, work.report_progress)
    if has_overlay:
        work.step(message("Writing later changes into the disk"), 40)
        work.node.commit_overlay(instance.id, disk.pool, disk.name)
    work.step(message("Storing the image"), 50)
    store_image(work, copy)


def overlay_if_running(work, instance, disk):
    """Redirect the writes of a running machine to an overlay and return True; return False when it is off.

    The disk then stays as it was at one moment: with frozen file systems if the guest agent answers, else as after a
    power failure. A machine that is off, or turns off meanwhile, cannot be started during the task and needs no
    overlay.
    """
    if work.node.power(instance.id) is Power.off:
        return False
    work.undo("commit_overlay", instance.id, disk.pool, disk.name)
    work.undo("thaw_guest", instance.id)
    work.step(message("Pausing writes to the disk"), 5)
    try:
        work.node.create_overlays(instance.id, [disk])
    except Refused:
        if work.node.power(instance.id) is not Power.off:
            raise
        return False
    return True


def store_image(work, copy):
    """Read the copy from the node into the panel's data directory, as the image's file."""
    folder = context.current().config.data_dir / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with temporary_file(folder) as (path, file):
        target = HashingWriter(file)
        work.node.read_disk(copy, target, work.report_progress)
        file.close()
        virtual_size, sha256 = image_files.read_virtual_size(path), target.hash.hexdigest()
        work.step(message("Removing the copy"), 90)
        work.node.delete_disk(copy.pool, copy.name)
        image = get_image(work)
        image_files.mark_complete(image, sha256, virtual_size)
        image.size = target.size
        os.replace(path, folder / image.filename)


def get_image(work):
    image = session.get(Image, work.task.arguments["image_id"], populate_existing=True)
    if image is None:
        raise NotFound(message("The image was deleted in the meantime."))
    return image


@task_handler("image_delete")
def delete(work):
    """Delete a copy from a node, unless disks are based on it, or the file from the data directory."""
    arguments = work.task.arguments
    if "filename" in arguments:
        work.step(message("Removing the file"), 50)
        folder = context.current().config.data_dir / "images"
        (folder / PurePosixPath(arguments["filename"]).name).unlink(missing_ok=True)
        return
    work.step(message("Removing the copy"), 50)
    try:
        work.node.delete_image(arguments["pool"], arguments["name"])
    except Refused as refusal:
        work.step(message("It stays there: {refusal}", refusal=refusal), 90)
