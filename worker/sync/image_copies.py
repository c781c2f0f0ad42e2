"""Removing copies of images from nodes when no image needs them any more.

A copy is left over when its image was deleted or changed while the node was away or while disks were based on the copy.
Copies are recognized by their names, which contain the checksum.
"""

import re

import structlog
from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.models import Hypervisor, Image, MicrovmImage, Storage
from worker.engine.registry import periodic
from worker.nodes.base import NodeDriver, NodeError, Refused, Unreachable
from worker.sync.node_sync import connect_node
from worker.tasks import microvm_files

log = structlog.get_logger()

IMAGE_COPY_NAME = re.compile(r"([0-9a-f]{32})\.(qcow2|raw)")
"""File name of an image on nodes (`worker.tasks.machine_spec.build_node_image`).

No other file of the panel has such a name.
"""


@periodic(seconds=3600)
def sweep_all_nodes() -> None:
    """Enqueue a sweep of each node that is up."""
    hypervisor_ids = session.scalars(select(Hypervisor.id).where(Hypervisor.status == "up")).all()
    session.commit()
    for hypervisor_id in hypervisor_ids:
        jobs.enqueue_call("worker.sync.image_copies.sweep_node", hypervisor_id)


def sweep_node(hypervisor_id: str) -> None:
    """Remove unneeded copies from every storage of the node. A copy that disks are based on stays."""
    pools = session.scalars(select(Storage.name).where(Storage.hypervisor_id == hypervisor_id)).all()
    session.commit()
    for pool in pools:
        try:
            sweep_pool(connect_node(hypervisor_id), pool)
        except Unreachable:
            return
        except NodeError as error:
            log.info("image_copies_unavailable", node=hypervisor_id, pool=pool, detail=error.detail)


def list_needed_prefixes() -> set[str]:
    """Return the names, without ending, of the copies that images need."""
    prefixes = {sha256[:32] for sha256 in session.scalars(select(Image.sha256)) if sha256}
    return prefixes | set(session.scalars(select(MicrovmImage.files_key)))


def sweep_pool(node: NodeDriver, pool: str) -> None:
    """Remove unneeded copies from one storage, of a micro VM image with the two files beside it.

    The images are queried after the node, so that the image of a new copy is among them.
    """
    copies = {disk.name: match[1] for disk in node.disks(pool) if (match := IMAGE_COPY_NAME.fullmatch(disk.name))}
    needed_prefixes = list_needed_prefixes() if copies else set()
    session.commit()
    for name, prefix in copies.items():
        if prefix in needed_prefixes:
            continue
        try:
            node.delete_image(pool, name)
            for file_name in (microvm_files.make_kernel_name(prefix), microvm_files.make_initrd_name(prefix)):
                node.delete_disk(pool, file_name)
            log.info("image_copy_removed", pool=pool, name=name)
        except Refused as error:
            log.info("image_copy_kept", pool=pool, name=name, detail=error.detail)
