"""Warm pools of micro VMs, for operators."""

from api import kit
from api.microvms import admin
from api.microvms.admin_microvms import READ_PERMISSION, WRITE_PERMISSION
from panel.schemas.microvm_pools import MicrovmPoolIn, MicrovmPoolOut, MicrovmPoolPatch, MicrovmPoolQuery
from panel.services.microvms import pools


@admin.get(
    "/microvm/pools",
    op="pools",
    can=READ_PERMISSION,
    query=MicrovmPoolQuery,
    out=kit.build_admin_page_schema(MicrovmPoolOut),
)
def listing(query):
    """List the warm pools, by hypervisor and image.

    A pool has micro VMs that were booted and saved. A create takes one of them when it asks for the image's size.
    """
    return kit.paginate(pools.listing(**query))


@admin.post("/microvm/pools", op="pool_create", can=WRITE_PERMISSION, body=MicrovmPoolIn, out=MicrovmPoolOut)
def create(body):
    """Add a warm pool of an image to a hypervisor.

    The panel boots its members one after the other. 422 under `hypervisor_id` for a hypervisor without a micro VM
    profile, and under `image_id` for an unknown image and for one that has a pool there.
    """
    kit.set_message("Pool added.")
    return pools.create(**body)


@admin.get("/microvm/pool/<microvm_pool_id>", op="pool_get", can=READ_PERMISSION, out=MicrovmPoolOut)
def show(microvm_pool_id):
    """Show a warm pool.

    `error` says why the last boot failed, until one succeeds.
    """
    return pools.get(microvm_pool_id)


@admin.patch(
    "/microvm/pool/<microvm_pool_id>",
    op="pool_update",
    can=WRITE_PERMISSION,
    body=MicrovmPoolPatch,
    out=MicrovmPoolOut,
)
def update(body, microvm_pool_id):
    """Change the size of a warm pool.

    Members above it are removed. A boot that failed is tried again at once.
    """
    kit.set_message("Pool updated.")
    return pools.resize(pools.get(microvm_pool_id), **body)


@admin.delete("/microvm/pool/<microvm_pool_id>", op="pool_delete", can=WRITE_PERMISSION)
def delete(microvm_pool_id):
    """Delete a warm pool.

    Its members are removed from the hypervisor.
    """
    pools.delete(pools.get(microvm_pool_id))
    kit.set_message("Pool deleted.")
