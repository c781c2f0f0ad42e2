"""What lies in a machine's optical drives when it is defined: those of its ISOs that its node has."""

from dataclasses import replace

from sqlalchemy import select

from panel.core.db import session
from panel.models import MediaDownload, Storage
from panel.services.instances.drives import DRIVE_COLUMNS
from worker.nodes import base


def with_media(instance, machine):
    """The machine with its media. What is still on its way is inserted when it arrives."""
    media = {}
    for slot, column in DRIVE_COLUMNS.items():
        if iso_id := getattr(instance, column):
            here = select(MediaDownload).join(Storage).where(Storage.hypervisor_id == instance.hypervisor_id)
            found = session.scalar(here.where(MediaDownload.iso_id == iso_id, MediaDownload.status == "ready"))
            if found:
                media[slot] = build_media_disk(found)
    return replace(machine, media={**machine.media, **media}) if media else machine


def build_media_disk(download):
    return base.Disk(download.storage.name, download.volume, download.bytes_total)
