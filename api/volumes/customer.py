"""Customers' volumes. All operations are refused while billing is off (`billing_disabled`)."""

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
        "volume_plans": fields.List(fields.Nested(VolumePlanOut), **describe("What can be chosen.")),
        "hypervisor_groups": fields.List(fields.Nested(LocationOut), **describe("The open locations.")),
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
    """List what a new volume can be: plans and locations."""
    return {
        "volume_plans": session.scalars(volume_plans.select_offered()).all(),
        "hypervisor_groups": session.scalars(catalog.select_locations(kit.get_current_access())).all(),
    }


@user.post("/storage/volumes", op="create", can=MANAGE_PERMISSION, body=VolumeIn, out=WRAPPED_VOLUME, billed=True)
def create(body):
    """Create a volume.

    Poll it until it is `available` or `failed`. Refused with 422 and `storage_not_sufficient` when the location is
    full.
    """
    volume = volumes.create(kit.get_current_access(), actor=kit.get_current_actor(), **body)
    return {"message": "The volume is being created.", "volume": volume}


@user.get(VOLUME_PATH, op="get", can=VIEW_PERMISSION, out=WRAPPED_VOLUME, billed=True)
def show(volume_id):
    """Show a volume with its snapshots.

    `status`, `instance_id` and the plan are as the last accepted request wants them; `pending` names the task that is
    still open, or is null. When that task fails they go back to what is true and `error` says why. 404 from the moment
    a delete was accepted.
    """
    return {"volume": get_own_volume(volume_id)}


@user.post(
    f"{VOLUME_PATH}/attach", op="attach", can=MANAGE_PERMISSION, body=VolumeAttach, out=WRAPPED_VOLUME, billed=True
)
def attach(body, volume_id):
    """Attach a volume to an instance of its location.

    A running guest sees it in a moment, as `dev`. When that fails it is `available` again, with an `error`. A volume
    that was in use once stays on its hypervisor: an instance elsewhere is refused with 422 under `instance_id`.
    Operations of one volume are carried out in the order of their requests; those behind one that failed are not begun
    and fail with its reason.
    """
    volume = volumes.attach(
        get_own_volume(volume_id), account=kit.get_current_access(), actor=kit.get_current_actor(), **body
    )
    return {"message": "The volume is being attached.", "volume": volume}


@user.post(f"{VOLUME_PATH}/detach", op="detach", can=MANAGE_PERMISSION, out=WRAPPED_VOLUME, billed=True)
def detach(volume_id):
    """Detach a volume.

    Unmount it first: a running guest that does not let it go keeps it, and it is `attached` again, with an `error`.
    Until `pending` is null the guest may still have it.
    """
    return {
        "message": "The volume is being detached.",
        "volume": volumes.detach(get_own_volume(volume_id), actor=kit.get_current_actor()),
    }


@user.patch(
    f"{VOLUME_PATH}/resize", op="resize", can=MANAGE_PERMISSION, body=VolumeResize, out=RESIZE_RESPONSE, billed=True
)
def resize(body, volume_id):
    """Move a volume to another plan of its class.

    A running guest sees the new size at once. `size` changes when the disk has grown; until then `pending` names the
    task. Refused with 422 under `volume_plan_id`: another class, less storage.
    """
    volume = get_own_volume(volume_id)
    cheaper = volumes.resize(volume, actor=kit.get_current_actor(), **body)
    return {"message": "The volume is being resized.", "is_downgrade": cheaper, "volume": volume}


@user.delete(VOLUME_PATH, op="delete", can=DELETE_PERMISSION, out=kit.build_result_schema(), billed=True)
def delete(volume_id):
    """Delete a volume with its snapshots.

    It is detached first. From now on it is not found and costs nothing. The panel removes the disk by itself, and tries
    again as often as needed: an accepted delete is never taken back, and its task cannot be cancelled.
    """
    volumes.delete(get_own_volume(volume_id), actor=kit.get_current_actor())
    return {"message": "The volume is being deleted."}
