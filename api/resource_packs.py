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
    """List resource packs with their usage.

    Contains the owner of each pack. Filter with `user_id`.
    """
    return kit.paginate(resource_packs.with_usage(resource_packs.listing(**query)))


@admin.post("/self-provisioning/packs", op="create", can=WRITE_PERMISSION, body=PackIn, out=AdminPackOut)
def create(body):
    """Create a resource pack for a user.

    Instances that the user creates from it use the pack's CPU cores, memory and disk, and cost nothing extra.
    """
    kit.set_message("Resource pack created.")
    return resource_packs.create(**body)


@admin.get("/self-provisioning/pack/<pack_id>", op="get", can=READ_PERMISSION, out=AdminPackOut)
def show(pack_id):
    """Get a resource pack with its usage.

    Returns 404 if the pack does not exist.
    """
    return resource_packs.get(pack_id)


@admin.patch("/self-provisioning/pack/<pack_id>", op="update", can=WRITE_PERMISSION, body=PackPatch, out=AdminPackOut)
def update(body, pack_id):
    """Update a resource pack.

    Only the fields you send are changed. A disabled pack accepts no new instances; existing ones keep running. Returns
    422 under the field if the pack would become smaller than its usage.
    """
    kit.set_message("Resource pack updated.")
    return resource_packs.update(resource_packs.get(pack_id), **body)


@admin.delete("/self-provisioning/pack/<pack_id>", op="delete", can=WRITE_PERMISSION)
def delete(pack_id):
    """Delete a resource pack.

    Returns 409 `pack_in_use` while instances use it. Disable it instead to keep them.
    """
    resource_packs.delete(resource_packs.get(pack_id))
    kit.set_message("Resource pack deleted.")
