"""Optical drives: putting ISOs into machines and taking them out."""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Iso, MediaDownload, Storage
from panel.services.instances import drives
from panel.services.media import downloads
from worker.engine.registry import task
from worker.tasks import media_downloads
from worker.tasks.instances import POWER, SUSPENSION, known
from worker.tasks.spec_media import disk_of

AFTER = ("iso_mount", "iso_unmount", *POWER, *SUSPENSION)


def not_changed(row, error):
    media_downloads.gave_up(row, error)
    drives.put_back(row)


@task("iso_mount", after=AFTER, ended_badly=not_changed)
def mount(work):
    instance, slot = known(work), work.task.arguments["slot"]
    iso = session.get(Iso, work.task.arguments["iso_id"])
    if iso is None:
        raise NotFound("The ISO was removed meanwhile.")
    download = lying(work, iso, place(instance), still=lambda: wanted(work) == iso.id)
    if download and wanted(work) == iso.id and instance.deployed:
        work.step("Inserting the medium", 90)
        work.node.set_media(instance.id, slot, disk_of(download))
        drives.came_true(work.task)


@task("iso_unmount", after=AFTER, ended_badly=not_changed)
def unmount(work):
    instance = known(work)
    if wanted(work) is None and instance.deployed:
        work.step("Ejecting the medium", 30)
        work.node.set_media(instance.id, work.task.arguments["slot"], None)
        drives.came_true(work.task)


def wanted(work):
    """What the row says by now: somebody may have wanted something else since."""
    return getattr(known(work), drives.SLOTS[work.task.arguments["slot"]])


def place(instance):
    return downloads.place(instance.hypervisor_id) or instance.disks[0].on


def lying(work, iso, storage, still=lambda: True):
    """The download of the ISO, complete. A node that lost the file fetches it again. None when nobody waits for it any
    more, which `still` says."""
    here = select(MediaDownload).join(Storage).where(Storage.hypervisor_id == storage.hypervisor_id)
    download = session.scalar(here.where(MediaDownload.iso_id == iso.id, MediaDownload.status == "ready"))
    if download:
        names = {disk.name for disk in work.node.disks(download.storage.name)}
        if download.volume in names:
            return download
        download.status, storage = "waiting", download.storage
        session.commit()
    return media_downloads.arrived(work, iso, storage, still)
