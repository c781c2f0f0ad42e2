"""The media in a machine spec: ISOs in its optical drives whose files are on the node."""

from dataclasses import replace

from sqlalchemy import select

from panel.core.db import session
from panel.models import MediaDownload, Storage
from panel.services.instances.drives import DRIVE_COLUMNS
from worker.nodes import base


def add_media(instance, machine):
    """Return the spec with its media. An ISO that is still downloading is inserted when it is complete."""
    media = {}
    for slot, column in DRIVE_COLUMNS.items():
        if iso_id := getattr(instance, column):
            query = select(MediaDownload).join(Storage).where(Storage.hypervisor_id == instance.hypervisor_id)
            download = session.scalar(query.where(MediaDownload.iso_id == iso_id, MediaDownload.status == "ready"))
            if download:
                media[slot] = build_media_disk(download)
    return replace(machine, media={**machine.media, **media}) if media else machine


def build_media_disk(download):
    return base.Disk(download.storage.name, download.volume, download.bytes_total)
