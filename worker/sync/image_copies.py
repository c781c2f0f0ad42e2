"""Copies of images on nodes that nobody needs any more: their image was removed while the node was away or while disks
were based on them, or has other bytes by now. A look now and then finds them by their names, which carry the checksum.
"""

import re

import structlog
from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.models import Hypervisor, Image, Storage
from worker.nodes.base import NodeError, Refused, Unreachable
from worker.sync.node_sync import connect_node

log = structlog.get_logger()

IMAGE_COPY_NAME = re.compile(r"([0-9a-f]{32})\.(qcow2|raw)")
"""What nodes call an image (worker.tasks.machine_spec.on_node). Nothing else of the panel's has such a name."""


def sweep_all_nodes():
    """Rings for a look at each node that answers."""
    up = session.scalars(select(Hypervisor.id).where(Hypervisor.status == "up")).all()
    session.commit()
    for hypervisor_id in up:
        jobs.enqueue_call("worker.sync.image_copies.sweep_node", hypervisor_id)


def sweep_node(hypervisor_id):
    """Removes what no image needs from every storage of the node. A copy that disks are based on stays until then."""
    pools = session.scalars(select(Storage.name).where(Storage.hypervisor_id == hypervisor_id)).all()
    session.commit()
    for pool in pools:
        try:
            sweep_pool(connect_node(hypervisor_id), pool)
        except Unreachable:
            return
        except NodeError as error:
            log.info("image_copies_not_seen", node=hypervisor_id, pool=pool, detail=error.detail)


def sweep_pool(node, pool):
    """The images are asked for after the node: a copy that came meanwhile is of one of them."""
    there = [disk.name for disk in node.disks(pool) if IMAGE_COPY_NAME.fullmatch(disk.name)]
    wanted = {sha256[:32] for sha256 in session.scalars(select(Image.sha256)) if sha256} if there else set()
    session.commit()
    for name in there:
        if IMAGE_COPY_NAME.fullmatch(name)[1] in wanted:
            continue
        try:
            node.delete_image(pool, name)
            log.info("image_copy_removed", pool=pool, name=name)
        except Refused as refusal:
            log.info("image_copy_kept", pool=pool, name=name, detail=refusal.detail)
