"""Customers' volumes. All operations are refused while billing is disabled (BIL-10, `billing_disabled`)."""

from marshmallow import fields

from api import kit
from api.volumes import user
from panel.core.db import session
from panel.schemas.base import describe
from panel.schemas.catalog import LocationOut
from panel.schemas.volumes import VolumeAttach, VolumeIn, VolumeOut, VolumePlanOut, VolumeQuery, VolumeResize
from panel.services import catalog, volume_plans, volumes

VOLUME_PATH = "/storage/volume/<volume_id>"
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = "volumes.view", "volumes.manage", "volumes.delete"
WRAPPED_VOLUME = kit.build_wrapped_schema("volume", VolumeOut)
CHOICES_RESPONSE = kit.Done.from_dict(
    {
        "volume_plans": fields.List(fields.Nested(VolumePlanOut), **describe("The available volume plans.")),
        "hypervisor_groups": fields.List(fields.Nested(LocationOut), **describe("The available locations.")),
    },
    name="VolumeChoices",
)
RESIZE_RESPONSE = kit.Done.from_dict(
    {
        "is_downgrade": fields.Boolean(**describe("Whether the new plan is cheaper.", False)),
        "volume": fields.Nested(VolumeOut, **describe("The volume.")),
    },
    name="VolumeResized",
)


def get_own_volume(volume_id):
    return volumes.get(volume_id, kit.get_current_access())


@user.get(
    "/storage/volumes",
    op="list",
    can=VIEW_PERMISSION,
    query=VolumeQuery,
    out=kit.build_page_schema(VolumeOut),
    billed=True,
)
def listing(query):
    """List volumes, newest first."""
    return kit.paginate(volumes.listing(kit.get_current_access(), **query))


@user.get("/storage/volumes/create", op="choices", can=VIEW_PERMISSION, out=CHOICES_RESPONSE, billed=True)
def choices():
    """List the plans and locations for a new volume."""
    return {
        "volume_plans": session.scalars(volume_plans.select_offered()).all(),
        "hypervisor_groups": session.scalars(catalog.select_locations(kit.get_current_access())).all(),
    }


@user.post("/storage/volumes", op="create", can=MANAGE_PERMISSION, body=VolumeIn, out=WRAPPED_VOLUME, billed=True)
def create(body):
    """Create a volume.

    Poll it until its status is `available` or `failed`. Returns 422 `storage_not_sufficient` if the location has not
    enough free storage.
    """
    volume = volumes.create(kit.get_current_access(), actor=kit.get_current_actor(), **body)
    return {"message": "Creation of the volume requested.", "volume": volume}


@user.get(VOLUME_PATH, op="get", can=VIEW_PERMISSION, out=WRAPPED_VOLUME, billed=True)
def show(volume_id):
    """Get a volume with its snapshots and backups.

    `status`, `instance_id` and the plan show the state that the last accepted request asked for; `pending` is the task
    that is still open, or null. If that task fails, they return to the actual state and `error` has the reason. Returns
    404 as soon as a deletion is accepted.
    """
    return {"volume": get_own_volume(volume_id)}


@user.post(
    f"{VOLUME_PATH}/attach", op="attach", can=MANAGE_PERMISSION, body=VolumeAttach, out=WRAPPED_VOLUME, billed=True
)
def attach(body, volume_id):
    """Attach a volume to an instance in the same location.

    A running guest sees it within moments under the path in `dev`. If it fails, the volume is `available` again and has
    an `error`. A volume that was attached once stays on its hypervisor: returns 422 under `instance_id` for an instance
    on another one. Operations on a volume are executed in the order of their requests; if one fails, the following ones
    are not started and fail with the same reason.
    """
    volume = volumes.attach(
        get_own_volume(volume_id), account=kit.get_current_access(), actor=kit.get_current_actor(), **body
    )
    return {"message": "Attachment of the volume requested.", "volume": volume}


@user.post(f"{VOLUME_PATH}/detach", op="detach", can=MANAGE_PERMISSION, out=WRAPPED_VOLUME, billed=True)
def detach(volume_id):
    """Detach a volume.

    Unmount it first: if a running guest does not release it, the volume stays `attached` and has an `error`. Until
    `pending` is null, the guest may still use it.
    """
    return {
        "message": "Detachment of the volume requested.",
        "volume": volumes.detach(get_own_volume(volume_id), actor=kit.get_current_actor()),
    }


@user.patch(
    f"{VOLUME_PATH}/resize", op="resize", can=MANAGE_PERMISSION, body=VolumeResize, out=RESIZE_RESPONSE, billed=True
)
def resize(body, volume_id):
    """Change the plan of a volume within its class.

    A running guest sees the new size immediately. `size` changes once the disk has grown; until then `pending` is the
    task. Returns 422 under `volume_plan_id` for a plan of another class or with less storage.
    """
    volume = get_own_volume(volume_id)
    cheaper = volumes.resize(volume, actor=kit.get_current_actor(), **body)
    return {"message": "Resize of the volume requested.", "is_downgrade": cheaper, "volume": volume}


@user.delete(VOLUME_PATH, op="delete", can=DELETE_PERMISSION, out=kit.build_result_schema(), billed=True)
def delete(volume_id):
    """Delete a volume with its snapshots.

    Its backups are kept. It is detached first, and no longer listed or charged once the request is accepted. The panel
    deletes the disk in the background and retries until it succeeds: an accepted deletion cannot be undone, and its
    task cannot be cancelled.
    """
    volumes.delete(get_own_volume(volume_id), actor=kit.get_current_actor())
    return {"message": "Deletion of the volume requested."}
