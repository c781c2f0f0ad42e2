"""Storages of hypervisors, which hold the disks."""

from marshmallow import fields

from api import kit
from panel.schemas.base import Out, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.hypervisors import StorageIn, StorageMetricsOut, StorageOut, StoragePatch
from panel.services import hypervisors

admin = kit.Admin("hypervisor_storage", __name__, description="Storages")


class AddedStorage(Out):
    storage_id = fields.String(**describe("Id of the new storage.", EXAMPLE_ID))


@admin.get(
    "/hypervisor/storages",
    op="list",
    can="admin:hypervisors:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(StorageOut),
)
def listing():
    """List the storages of all hypervisors.

    Sorted by hypervisor and name, with capacity and allocated space.
    """
    return kit.paginate(hypervisors.select_storages())


@admin.post("/hypervisor/storages", op="create", can="admin:hypervisors:write", body=StorageIn, out=AddedStorage)
def create(body):
    """Add a storage to a hypervisor.

    A worker creates the directory immediately. Returns 422 under `name` or `path` if the hypervisor already has a
    storage with that name or directory, and under `hypervisor_id` if the hypervisor does not exist.
    """
    hypervisor = hypervisors.get(body.pop("hypervisor_id"), "hypervisor_id")
    kit.set_message("Storage created. A worker creates its directory.")
    return {"storage_id": hypervisors.create_storage(hypervisor, **body).id}


@admin.get("/hypervisor/storage/<storage_id>", op="get", can="admin:hypervisors:read", out=StorageOut)
def show(storage_id):
    """Get a storage.

    Returns 404 if the storage does not exist.
    """
    return hypervisors.get_storage(storage_id)


@admin.patch(
    "/hypervisor/storage/<storage_id>", op="update", can="admin:hypervisors:write", body=StoragePatch, out=StorageOut
)
def update(body, storage_id):
    """Update a storage.

    Only the fields you send are changed. A disabled storage accepts no new disks; existing disks stay.
    """
    kit.set_message("Storage updated.")
    return hypervisors.update_storage(hypervisors.get_storage(storage_id), **body)


@admin.delete("/hypervisor/storage/<storage_id>", op="delete", can="admin:hypervisors:write")
def delete(storage_id):
    """Remove a storage from the panel.

    The files on the host are not deleted. Returns 409 while the storage contains disks.
    """
    hypervisors.delete_storage(hypervisors.get_storage(storage_id))
    kit.set_message("Storage removed from the panel. Its files stay on the host.")


@admin.get(
    "/hypervisor/storage/<storage_id>/metrics", op="metrics", can="admin:hypervisors:read", out=StorageMetricsOut
)
def metrics(storage_id):
    """Get capacity, use and allocated space of a storage.

    Returns the latest values that a worker read from the hypervisor; this call does not query the host.
    """
    return hypervisors.describe_storage(hypervisors.get_storage(storage_id))
