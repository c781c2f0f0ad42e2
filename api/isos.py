"""The ISO library, in both dialects."""

from api import kit
from panel.schemas.isos import AdminIsoIn, AdminIsoOut, AdminIsoRow, IsoIn, IsoOut, IsoPatch, IsoQuery
from panel.services import isos
from panel.services.media import downloads

user = kit.User("iso", __name__, description="ISO images")
admin = kit.Admin("iso", __name__, description="ISO images")

DOWNLOAD_RESTARTS_MESSAGE = "The download begins anew where the file is missing."


def get_own_iso(iso_id):
    return isos.get(iso_id, kit.get_current_access(), own=True)


@user.get("/isos", op="list", can="isos.view", query=IsoQuery, out=kit.build_page_schema(IsoOut))
def listing(query):
    """List the ISOs that can be mounted: the platform's and the account's own."""
    return kit.paginate(isos.listing(kit.get_current_access(), **query))


@user.post("/isos", op="create", can="isos.manage", body=IsoIn, out=kit.build_wrapped_schema("iso", IsoOut))
def create(body):
    """Add an ISO by its https address.

    Nodes fetch it by themselves; a checksum, if given, is verified. A file name with other characters than letters,
    digits, dots, underscores and hyphens is refused with `iso_filename_invalid`.
    """
    return {
        "message": "The ISO is being fetched.",
        "iso": isos.create(kit.get_current_access(), actor=kit.get_current_actor(), **body),
    }


@user.get("/iso/<iso_id>", op="get", can="isos.view", out=kit.build_wrapped_schema("iso", IsoOut))
def show(iso_id):
    """Show an ISO, with what is wrong with its download."""
    return {"iso": isos.get(iso_id, kit.get_current_access())}


@user.delete("/iso/<iso_id>", op="delete", can="isos.delete", out=kit.build_result_schema())
def delete(iso_id):
    """Remove an ISO of the account's own. Refused with `iso_mounted` while it lies in a drive."""
    isos.delete(get_own_iso(iso_id), actor=kit.get_current_actor())
    return {"message": "The ISO is removed."}


@user.post("/iso/<iso_id>/retry", op="retry", can="isos.manage", out=kit.build_wrapped_schema("iso", IsoOut))
def retry(iso_id):
    """Fetch an ISO of the account's own again at once, whatever the pause after earlier failures."""
    iso = get_own_iso(iso_id)
    downloads.retry(iso, actor=kit.get_current_actor())
    return {"message": DOWNLOAD_RESTARTS_MESSAGE, "iso": iso}


@admin.get("/isos", op="list", can="admin:images:read", query=IsoQuery, out=kit.build_admin_page_schema(AdminIsoRow))
def admin_listing(query):
    """List every ISO, customers' own ones too.

    By name. `user_id` is null for those of the platform.
    """
    return kit.paginate(isos.listing(**query))


@admin.post("/isos", op="create", can="admin:images:write", body=AdminIsoIn, out=AdminIsoOut)
def admin_create(body):
    """Add an ISO to the platform's library by its https address.

    Every hypervisor fetches a public one. 422 `iso_filename_invalid` for a file name that cannot be used, 422 under
    `url` for an address that is not https or not public.
    """
    kit.set_message("The ISO is being fetched.")
    return isos.create(actor=kit.get_current_actor(), **body)


@admin.get("/iso/<iso_id>", op="get", can="admin:images:read", out=AdminIsoOut)
def admin_show(iso_id):
    """Show an ISO, with each hypervisor that has it or fetches it.

    404 when there is no such ISO.
    """
    return isos.get(iso_id)


@admin.patch("/iso/<iso_id>", op="update", can="admin:images:write", body=IsoPatch, out=AdminIsoOut)
def admin_update(body, iso_id):
    """Change an ISO.

    Only what is sent changes. One that is switched off cannot be chosen any more; drives that hold it keep it.
    """
    kit.set_message("The ISO is changed.")
    return isos.update(isos.get(iso_id), **body)


@admin.delete("/iso/<iso_id>", op="delete", can="admin:images:write")
def admin_delete(iso_id):
    """Remove an ISO.

    Refused with `iso_mounted` while it lies in a drive. The files on hypervisors are removed by tasks.
    """
    isos.delete(isos.get(iso_id), actor=kit.get_current_actor())
    kit.set_message("The ISO is removed.")


@admin.post("/iso/<iso_id>/retry", op="retry", can="admin:images:write", out=AdminIsoOut)
def admin_retry(iso_id):
    """Fetch an ISO again at once wherever it is missing, whatever the pause after earlier failures.

    Failures are counted anew. Nothing is done where the ISO is present.
    """
    iso = isos.get(iso_id)
    downloads.retry(iso, actor=kit.get_current_actor())
    kit.set_message(DOWNLOAD_RESTARTS_MESSAGE)
    return iso
