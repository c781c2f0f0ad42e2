"""Resource packs, for operators."""

from api import kit
from panel.schemas.resource_packs import AdminPackOut, PackIn, PackPatch, PackQuery
from panel.services import resource_packs

admin = kit.Admin("self_provisioning_pack", __name__, description="Resource packs")
READ_PERMISSION, WRITE_PERMISSION = "admin:billing:read", "admin:billing:write"


@admin.get(
    "/self-provisioning/packs",
    op="list",
    can=READ_PERMISSION,
    query=PackQuery,
    out=kit.build_admin_page_schema(AdminPackOut),
)
def listing(query):
    """List resource packs, with what of them is in use.

    With the account that each belongs to.
    """
    return kit.paginate(resource_packs.with_usage(resource_packs.listing(**query)))


@admin.post("/self-provisioning/packs", op="create", can=WRITE_PERMISSION, body=PackIn, out=AdminPackOut)
def create(body):
    """Give a user a resource pack.

    Instances that the user makes from it use its processors, memory and disk, and cost nothing more.
    """
    kit.set_message("The resource pack is added.")
    return resource_packs.create(**body)


@admin.get("/self-provisioning/pack/<pack_id>", op="get", can=READ_PERMISSION, out=AdminPackOut)
def show(pack_id):
    """Show a resource pack, with what of it is in use.

    404 when there is no such pack.
    """
    return resource_packs.get(pack_id)


@admin.patch("/self-provisioning/pack/<pack_id>", op="update", can=WRITE_PERMISSION, body=PackPatch, out=AdminPackOut)
def update(body, pack_id):
    """Change a resource pack.

    It cannot become smaller than what of it is in use (422 under the field). Only what is sent changes. One that is off
    takes no new instances; those in it go on.
    """
    kit.set_message("The resource pack is changed.")
    return resource_packs.update(resource_packs.get(pack_id), **body)


@admin.delete("/self-provisioning/pack/<pack_id>", op="delete", can=WRITE_PERMISSION)
def delete(pack_id):
    """Remove a resource pack.

    Refused with 409 `pack_in_use` while there are instances of it. Switch it off instead to keep its instances.
    """
    resource_packs.delete(resource_packs.get(pack_id))
    kit.set_message("The resource pack is removed.")
