"""Storages of hypervisors, where disks lie."""

from marshmallow import fields

from api import kit
from panel.schemas.base import Out, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.hypervisors import StorageIn, StorageOut, StoragePatch
from panel.services import hypervisors

admin = kit.Admin("hypervisor_storage", __name__, description="Storages")


class AddedStorage(Out):
    storage_id = fields.String(**describe("The storage that was added.", EXAMPLE_ID))


@admin.get(
    "/hypervisor/storages",
    op="list",
    can="admin:hypervisors:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(StorageOut),
)
def listing():
    """List the storages of all hypervisors.

    By hypervisor and name, with capacity and what is promised of it.
    """
    return kit.paginate(hypervisors.select_storages())


@admin.post("/hypervisor/storages", op="create", can="admin:hypervisors:write", body=StorageIn, out=AddedStorage)
def create(body):
    """Add a storage to a hypervisor.

    A worker makes the folder at once. 422 under `name` or `path` when the hypervisor has a storage of that name or in
    this folder, under `hypervisor_id` for an unknown hypervisor.
    """
    hypervisor = hypervisors.get(body.pop("hypervisor_id"), "hypervisor_id")
    kit.set_message("The storage is added.")
    return {"storage_id": hypervisors.create_storage(hypervisor, **body).id}


@admin.get("/hypervisor/storage/<storage_id>", op="get", can="admin:hypervisors:read", out=StorageOut)
def show(storage_id):
    """Show a storage.

    404 when there is no such storage.
    """
    return hypervisors.get_storage(storage_id)


@admin.patch(
    "/hypervisor/storage/<storage_id>", op="update", can="admin:hypervisors:write", body=StoragePatch, out=StorageOut
)
def update(body, storage_id):
    """Change a storage.

    Only what is sent changes. One that is off takes no new disks; those in it stay.
    """
    kit.set_message("The storage is changed.")
    return hypervisors.update_storage(hypervisors.get_storage(storage_id), **body)


@admin.delete("/hypervisor/storage/<storage_id>", op="delete", can="admin:hypervisors:write")
def delete(storage_id):
    """Remove a storage from the panel.

    Refused while disks are in it; its files stay on the host. Disks in it are a 409. No file is removed.
    """
    hypervisors.delete_storage(hypervisors.get_storage(storage_id))
    kit.set_message("The storage is removed.")
