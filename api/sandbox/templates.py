"""Templates, which are micro VM images."""

from sqlalchemy import func, select

from api.sandbox.answers import ENVD_VERSION, MIB_PER_GIB
from api.sandbox.kit import get_access, route
from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Microvm
from panel.services import microvms

BUILD_STATUSES = {"building": "building", "available": "ready", "failed": "error"}
"""The SDKs' words for the status of an image."""


@route("GET", "/templates", op="list_templates", can="microvm.view")
def list_templates():
    """List the images of the platform and of the account, with the account's use of them now."""
    access = get_access()
    count = select(Microvm.image_id, func.count(), func.max(Microvm.started_at)).where(
        access.visible_rows(Microvm), Microvm.ended_at.is_(None)
    )
    uses = {row[0]: row[1:] for row in session.execute(count.group_by(Microvm.image_id))}
    images = session.scalars(microvms.images.listing(access))
    return [build_template(image, *uses.get(image.id, (0, None))) for image in images]


def build_template(image, use_count, last_use):
    return {
        "templateID": image.id,
        "buildID": image.id,
        "cpuCount": image.cpu_cores,
        "memoryMB": image.memory_mb,
        "diskSizeMB": image.disk_gb * MIB_PER_GIB,
        "public": image.account_id is None,
        "aliases": image.aliases or [image.name],
        "names": list(dict.fromkeys([image.name, *image.aliases])),
        "createdAt": image.created_at,
        "updatedAt": image.updated_at,
        "createdBy": None,
        "lastSpawnedAt": last_use,
        "spawnCount": use_count,
        "buildCount": 1,
        "envdVersion": ENVD_VERSION,
        "buildStatus": BUILD_STATUSES[image.status],
    }


@route("GET", "/templates/aliases/<alias>", op="find_template", can="microvm.view")
def find_template(alias):
    image = microvms.images.find(alias, get_access())
    if image is None:
        raise NotFound(f'Template "{alias[:64]}" not found')
    return {"templateID": image.id, "public": image.account_id is None}
