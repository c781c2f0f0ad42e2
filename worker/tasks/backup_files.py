"""Reading single files of backups.

The disks of a backup are copied to the node, and a machine without a network mounts their file systems. The kernels of
the node and of this process never read them.
"""

import contextlib
import os
import shutil
import time

from panel.core import context
from panel.core.db import session
from panel.core.errors import NotFound, Problem
from panel.core.messages import get_message, message
from panel.services import backup_files, instance_backups
from panel.services.backup_files.listings import PAGE_ENTRIES
from panel.services.backup_files.requests import REASON_MESSAGES
from panel.services.backup_files.sessions import NO_IMAGE_MESSAGE
from worker.backups.restoring import restore_disk
from worker.engine.registry import periodic, task_handler
from worker.engine.runner import TASK_WAIT_INTERVAL_SECONDS
from worker.guest import backup_files as guest_files
from worker.images import helper_image
from worker.nodes import base
from worker.nodes.base import AgentUnavailable, GiB, Machine, NodeError, NotOnNode
from worker.sync.node_sync import connect_node
from worker.tasks import microvm_files
from worker.tasks.backup_reading import open_backup
from worker.tasks.backup_repositories import translated_errors
from worker.tasks.media_downloads import temporary_file

HELPER_CORES, HELPER_MEMORY_MB = 1, 512
HELPER_CPU_PERCENT = 100
BOOT_TIMEOUT_SECONDS = 300
"""Seconds in which the file systems must be mounted. Their journals may be long."""
MIN_FREE_BYTES = 5 * GiB
"""Bytes that stay free where downloads are stored."""


def get_session(work):
    row = backup_files.find_by_id(work.task.resource_id)
    if row is None or row.state == "closing":
        raise NotFound(message("The files were closed in the meantime."))
    return row


def build_disks(row, backup):
    """Return the machine's disks: its own, then the copies."""
    pool, archives = row.storage.name, sorted(backup.disks, key=lambda archive: archive["position"])
    copies = [
        base.Disk(pool, f"{row.node_name}-{number}.qcow2", archive["size"])
        for number, archive in enumerate(archives, 1)
    ]
    return base.Disk(pool, f"{row.node_name}-0.qcow2", GiB), copies, [archive["name"] for archive in archives]


def build_machine(row, image, disks):
    """Return the spec of a machine without a network and a screen."""
    pool = row.storage.name
    make_names = microvm_files.make_kernel_name, microvm_files.make_initrd_name
    return Machine(
        id=row.id,
        name=row.node_name,
        cpu_cores=HELPER_CORES,
        memory_mb=HELPER_MEMORY_MB,
        disks=disks,
        vnc=False,
        kernel=base.Kernel(*(base.Disk(pool, make(image.files_key), 0) for make in make_names), image.kernel_options),
        channel=True,
        cpu_quota=HELPER_CPU_PERCENT,
    )


def get_helper_image():
    image = helper_image.read_description(context.current().config.data_dir)
    if image is None:
        raise NodeError(NO_IMAGE_MESSAGE, "Run: panel image build backup-files")
    return image


def on_open_failed(row, error):
    backup_files.record_open_failed(row.resource_id, error)


@task_handler("backup_files_open", on_failure=on_open_failed)
def open_files(work):
    """Copy the disks to the node and start the machine that reads them."""
    row, image = get_session(work), get_helper_image()
    backup = instance_backups.find_by_id(row.backup_id)
    if backup is None:
        raise NotFound(message("The backup was deleted in the meantime."))
    system_disk, copies, stored_names = build_disks(row, backup)
    machine = build_machine(row, image, (system_disk, *copies))
    work.step(message("Preparing"), 2)
    microvm_files.ensure_files(work, image, system_disk.pool)
    work.step(message("Connecting to the storage"), 5)
    with open_backup(backup) as (repository, manifest):
        for stored_name, disk in zip(stored_names, copies, strict=True):
            work.undo("delete_disk", disk.pool, disk.name)
            work.step(message("Copying the disk"), 10)
            with translated_errors():
                restore_disk(work.node, repository, manifest, stored_name, disk, work.report_progress)
    work.step(message("Starting the machine"), 70)
    work.undo("delete_disk", system_disk.pool, system_disk.name)
    work.node.create_disk(system_disk, microvm_files.build_disk_image(image))
    work.undo("delete", machine.id)
    work.node.define(machine)
    work.node.start(machine.id)
    work.step(message("Opening the file systems"), 80)
    volumes = wait_for_volumes(work, machine.id)
    backup_files.record_ready(get_session(work), volumes)


def wait_for_volumes(work, machine_id):
    deadline = time.monotonic() + BOOT_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        work.check()
        with contextlib.suppress(AgentUnavailable):
            volumes = guest_files.read_volumes(work.node, machine_id)
            if volumes is not None:
                return volumes
        time.sleep(TASK_WAIT_INTERVAL_SECONDS)
    raise NodeError(message("The machine that reads the backup did not start."), f"machine {machine_id}")


@task_handler("backup_files_close")
def close_files(work):
    """Remove the machine, the copies and the downloads. What is missing counts as removed."""
    row = backup_files.find_by_id(work.task.resource_id)
    if row is None:
        return
    pool, prefix, session_id = row.storage.name, f"{row.node_name}-", row.id
    work.step(message("Removing the machine"), 20)
    work.node.delete(session_id)
    work.step(message("Deleting the copies"), 50)
    with contextlib.suppress(NotOnNode):
        for disk in work.node.disks(pool):
            if disk.name.startswith(prefix):
                work.node.delete_disk(pool, disk.name)
    shutil.rmtree(get_folder() / session_id, ignore_errors=True)
    row = backup_files.find_by_id(session_id)
    if row is not None:
        session.delete(row)


def get_folder():
    return context.current().config.data_dir / backup_files.FOLDER


@periodic(seconds=60)
def close_due():
    """Close sessions that are over, and delete downloads of those that are gone."""
    backup_files.close_due()
    session.commit()
    folder = get_folder()
    for path in folder.iterdir() if folder.exists() else ():
        if backup_files.find_by_id(path.name) is None:
            shutil.rmtree(path, ignore_errors=True)
    session.commit()


# --- lists


def read_list(request_id):
    """Answer a request for the list of a folder."""
    request = backup_files.find_request(request_id)
    if request is None or request.status != "waiting" or request.session.state != "ready":
        return session.rollback()
    machine_id, path, after = request.session_id, request.path, request.after
    node = connect_node(request.session.hypervisor_id)
    session.commit()
    try:
        answer, error = guest_files.list_folder(node, machine_id, path, after, PAGE_ENTRIES), None
    except NodeError as failure:
        answer, error = {}, get_message(failure)
    request = backup_files.find_request(request_id)
    if request is None:
        return session.rollback()
    if error is not None:
        backup_files.record_failed(request, error)
    elif "error" in answer:
        backup_files.record_failed(request, "", choose_reason(answer["error"]))
    else:
        backup_files.record_result(request, result=answer)
    session.commit()


def choose_reason(code):
    return code if code in REASON_MESSAGES else "unreadable"


# --- downloads


def on_download_failed(row, error):
    request = backup_files.find_request(row.arguments["request_id"])
    if request is not None and request.status == "waiting":
        backup_files.record_failed(request, error)


@task_handler("backup_files_download", on_failure=on_download_failed)
def download(work):
    """Read a file, or a folder as an archive, into the data directory."""
    row = get_session(work)
    request = backup_files.find_request(work.task.arguments["request_id"])
    if request is None or request.status == "done":
        return
    path, request_id = request.path, request.id
    folder = get_folder() / row.id
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    limit = choose_limit(folder)
    work.step(message("Reading from the backup"), 10)
    with temporary_file(folder) as (temporary, file):
        with contextlib.closing(work.node.open_channel(row.id)) as channel:
            error, is_archive = guest_files.receive(
                channel,
                path,
                limit=limit,
                write=file.write,
                report=lambda size: work.report_progress(size, limit),
            )
        size = file.tell()
        file.close()
        request = backup_files.find_request(request_id)
        if request is None:
            raise NotFound(message("The files were closed in the meantime."))
        if error is None:
            os.replace(temporary, folder / request_id)
            backup_files.record_result(request, result={"is_archive": is_archive}, size=size)
        else:
            backup_files.record_failed(request, "", choose_reason(error))


def choose_limit(folder):
    """Return how large the download may be."""
    free = shutil.disk_usage(folder).free - MIN_FREE_BYTES
    if free <= 0:
        raise Problem(message("The panel has too little room for downloads. Contact the operator."))
    return min(backup_files.MAX_DOWNLOAD_BYTES, free)
