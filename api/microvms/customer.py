"""Customers' micro VMs."""

from marshmallow import fields

from api import kit
from api.microvms import user
from panel.core.db import session
from panel.schemas.base import describe
from panel.schemas.microvms import (
    EXAMPLE_ID,
    CatalogLocationOut,
    MicrovmImageOut,
    MicrovmIn,
    MicrovmOut,
    MicrovmPatch,
    MicrovmQuery,
    MicrovmSizeOut,
)
from panel.services import microvms

VM_PATH = "/microvm/vm/<microvm_id>"
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = "microvm.view", "microvm.manage", "microvm.delete"
WRAPPED_VM = kit.build_wrapped_schema("vm", MicrovmOut)
TASK_FIELD = fields.String(
    allow_none=True, **describe("The task that does it; null when nothing is left to do.", EXAMPLE_ID)
)
ACTION_RESPONSE = kit.Done.from_dict(
    {"task_id": TASK_FIELD, "vm": fields.Nested(MicrovmOut, **describe("The micro VM."))}, name="MicrovmAction"
)
DESTROY_RESPONSE = kit.Done.from_dict({"task_id": TASK_FIELD}, name="MicrovmDestroyed")
CATALOG_RESPONSE = kit.Done.from_dict(
    {
        "locations": fields.List(fields.Nested(CatalogLocationOut), **describe("The locations, by name.")),
        "images": fields.List(fields.Nested(MicrovmImageOut), **describe("The images, by name.")),
        "sizes": fields.List(fields.Nested(MicrovmSizeOut), **describe("Proposed sizes. Others are possible.")),
    },
    name="MicrovmCatalog",
)


def get_own_microvm(microvm_id):
    return microvms.get(microvm_id, kit.get_current_access())


def describe_action(microvm, task, sentence):
    return {"message": sentence, "task_id": task and task.id, "vm": microvm}


@user.get("/microvm/catalog", op="catalog", can=VIEW_PERMISSION, out=CATALOG_RESPONSE, billed=True)
def catalog():
    """List what a micro VM can be: locations, images and sizes.

    A location that is `locked` is closed to micro VMs; one that is not `available` has no room at the moment.
    """
    access = kit.get_current_access()
    return {
        "locations": microvms.list_locations(access),
        "images": session.scalars(microvms.images.listing(access)).all(),
        "sizes": microvms.SIZES,
    }


@user.get(
    "/microvm/vms",
    op="list",
    can=VIEW_PERMISSION,
    query=MicrovmQuery,
    out=kit.build_page_schema(MicrovmOut),
    billed=True,
)
def listing(query):
    """List micro VMs, newest first.

    Those that were destroyed are left out.
    """
    return kit.paginate(microvms.listing(kit.get_current_access(), **query))


@user.post("/microvm/vms", op="create", can=MANAGE_PERMISSION, body=MicrovmIn, out=WRAPPED_VM)
def create(body):
    """Create a micro VM and start it.

    The account's settings apply to location, image, time-out and `on_timeout` where the body names none. Poll it until
    it is `running` or `failed`. Refused with 422: `no_microvm_node` when no hypervisor of the location takes micro VMs
    or has room for this size, `no_internet_access` when none of them offers internet access, `microvm_disabled` when
    the location is closed to them.
    """
    access = kit.get_current_access()
    values = microvms.settings.apply_defaults(access, body)
    microvm = microvms.create(access, actor=kit.get_current_actor(), **values)
    return {"message": "Creation requested.", "vm": microvm}


@user.get(VM_PATH, op="get", can=VIEW_PERMISSION, out=WRAPPED_VM)
def show(microvm_id):
    """Show a micro VM.

    404 once it was destroyed.
    """
    return {"vm": get_own_microvm(microvm_id)}


@user.patch(VM_PATH, op="update", can=MANAGE_PERMISSION, body=MicrovmPatch, out=WRAPPED_VM)
def update(body, microvm_id):
    """Change name, tags, metadata, time-out and network of a micro VM.

    A new time-out counts from now on; null removes it. While the micro VM is paused it counts from the next resume. A
    running micro VM gets the new rules for its network a moment later. 422 `no_internet_access` when it has no network
    interface and is to connect to something.
    """
    microvm = get_own_microvm(microvm_id)
    changes = {"meta" if name == "metadata" else name: value for name, value in body.items()}
    return {
        "message": "The micro VM is changed.",
        "vm": microvms.update(microvm, changes, actor=kit.get_current_actor()),
    }


@user.delete(VM_PATH, op="delete", can=DELETE_PERMISSION, out=DESTROY_RESPONSE)
def delete(microvm_id):
    """Destroy a micro VM with its disk and snapshots, in any state.

    It is `destroying` until nothing is left of it; the panel tries again as often as needed. Repeated, it changes
    nothing.
    """
    task = microvms.destroy(get_own_microvm(microvm_id), actor=kit.get_current_actor())
    return {"message": "Destruction requested.", "task_id": task and task.id}
