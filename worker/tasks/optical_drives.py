"""Tasks of optical drives: inserting and ejecting ISOs."""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Iso, MediaDownload, Storage
from panel.services.instances import drives
from panel.services.media import downloads
from worker.engine.registry import task_handler
from worker.tasks import media_downloads
from worker.tasks.instances import POWER_TASKS, SUSPENSION_TASKS, get_instance
from worker.tasks.spec_media import build_media_disk

CONFLICTING_TASKS = ("iso_mount", "iso_unmount", *POWER_TASKS, *SUSPENSION_TASKS)


def on_change_failed(row, error):
    media_downloads.on_download_failed(row, error)
    drives.restore_drive(row)


@task_handler("iso_mount", conflicts_with=CONFLICTING_TASKS, on_failure=on_change_failed)
def mount(work):
    instance, slot = get_instance(work), work.task.arguments["slot"]
    iso = session.get(Iso, work.task.arguments["iso_id"])
    if iso is None:
        raise NotFound(message("The ISO was deleted in the meantime."))
    download = ensure_iso_on_node(
        work, iso, choose_iso_storage(instance), is_needed=lambda: get_current_iso_id(work) == iso.id
    )
    if download and get_current_iso_id(work) == iso.id and instance.deployed:
        work.step(message("Inserting the medium"), 90)
        work.node.set_media(instance.id, slot, build_media_disk(download))
        drives.record_success(work.task)


@task_handler("iso_unmount", conflicts_with=CONFLICTING_TASKS, on_failure=on_change_failed)
def unmount(work):
    instance = get_instance(work)
    if get_current_iso_id(work) is None and instance.deployed:
        work.step(message("Ejecting the medium"), 30)
        work.node.set_media(instance.id, work.task.arguments["slot"], None)
        drives.record_success(work.task)


def get_current_iso_id(work):
    """Return the ISO that the row has for the drive now, which may have changed since the request."""
    return getattr(get_instance(work), drives.DRIVE_COLUMNS[work.task.arguments["slot"]])


def choose_iso_storage(instance):
    return downloads.find_library_storage(instance.hypervisor_id) or instance.disks[0].storage


def ensure_iso_on_node(work, iso, storage, is_needed=lambda: True):
    """Return the ISO's complete download. A file that the node has lost is downloaded again.

    Returns None when `is_needed` returns False.
    """
    query = select(MediaDownload).join(Storage).where(Storage.hypervisor_id == storage.hypervisor_id)
    download = session.scalar(query.where(MediaDownload.iso_id == iso.id, MediaDownload.status == "ready"))
    if download:
        names = {disk.name for disk in work.node.disks(download.storage.name)}
        if download.volume in names:
            return download
        download.status, storage = "waiting", download.storage
        session.commit()
    return media_downloads.wait_for_file(work, iso, storage, is_needed)
