"""The ISO library, in both dialects."""

from api import kit
from panel.schemas.isos import AdminIsoIn, AdminIsoOut, AdminIsoRow, IsoIn, IsoOut, IsoPatch, IsoQuery
from panel.services import isos
from panel.services.media import downloads

user = kit.User("iso", __name__, description="ISO images")
admin = kit.Admin("iso", __name__, description="ISO images")

DOWNLOAD_MESSAGE = "Download requested."


def get_own_iso(iso_id):
    return isos.get(iso_id, kit.get_current_access(), own=True)


@user.get("/isos", op="list", can="isos.view", query=IsoQuery, out=kit.build_page_schema(IsoOut))
def listing(query):
    """List the ISOs that can be mounted: the platform's and your own."""
    return kit.paginate(isos.listing(kit.get_current_access(), **query))


@user.post("/isos", op="create", can="isos.manage", body=IsoIn, out=kit.build_wrapped_schema("iso", IsoOut))
def create(body):
    """Add an ISO from an https URL.

    Hypervisors download it automatically and verify the checksum, if there is one. Returns 422 `iso_filename_invalid`
    for a file name with characters other than letters, digits, dots, underscores and hyphens.
    """
    return {
        "message": "Download requested.",
        "iso": isos.create(kit.get_current_access(), actor=kit.get_current_actor(), **body),
    }


@user.get("/iso/<iso_id>", op="get", can="isos.view", out=kit.build_wrapped_schema("iso", IsoOut))
def show(iso_id):
    """Get an ISO with the state of its download."""
    return {"iso": isos.get(iso_id, kit.get_current_access())}


@user.delete("/iso/<iso_id>", op="delete", can="isos.delete", out=kit.build_result_schema())
def delete(iso_id):
    """Delete one of your ISOs. Returns 409 `iso_mounted` while it is mounted in a drive."""
    isos.delete(get_own_iso(iso_id), actor=kit.get_current_actor())
    return {"message": "ISO deleted."}


@user.post("/iso/<iso_id>/retry", op="retry", can="isos.manage", out=kit.build_wrapped_schema("iso", IsoOut))
def retry(iso_id):
    """Retry the download of one of your ISOs immediately, without waiting for the next attempt."""
    iso = get_own_iso(iso_id)
    downloads.retry(iso, actor=kit.get_current_actor())
    return {"message": DOWNLOAD_MESSAGE, "iso": iso}


@admin.get("/isos", op="list", can="admin:images:read", query=IsoQuery, out=kit.build_admin_page_schema(AdminIsoRow))
def admin_listing(query):
    """List all ISOs, including those of customers, by name.

    `user_id` is null for ISOs of the platform.
    """
    return kit.paginate(isos.listing(**query))


@admin.post("/isos", op="create", can="admin:images:write", body=AdminIsoIn, out=AdminIsoOut)
def admin_create(body):
    """Add an ISO to the platform's library from an https URL.

    A public ISO is downloaded to every hypervisor. Returns 422 `iso_filename_invalid` for an invalid file name, and 422
    under `url` if the URL is not https or not public.
    """
    kit.set_message("Download requested.")
    return isos.create(actor=kit.get_current_actor(), **body)


@admin.get("/iso/<iso_id>", op="get", can="admin:images:read", out=AdminIsoOut)
def admin_show(iso_id):
    """Get an ISO with the state of its download on each hypervisor.

    Returns 404 if the ISO does not exist.
    """
    return isos.get(iso_id)


@admin.patch("/iso/<iso_id>", op="update", can="admin:images:write", body=IsoPatch, out=AdminIsoOut)
def admin_update(body, iso_id):
    """Update an ISO.

    Only the fields you send are changed. A disabled ISO cannot be selected; drives in which it is mounted keep it.
    """
    kit.set_message("ISO updated.")
    return isos.update(isos.get(iso_id), **body)


@admin.delete("/iso/<iso_id>", op="delete", can="admin:images:write")
def admin_delete(iso_id):
    """Delete an ISO.

    Tasks delete the files on the hypervisors. Returns 409 `iso_mounted` while it is mounted in a drive.
    """
    isos.delete(isos.get(iso_id), actor=kit.get_current_actor())
    kit.set_message("ISO deleted.")


@admin.post("/iso/<iso_id>/retry", op="retry", can="admin:images:write", out=AdminIsoOut)
def admin_retry(iso_id):
    """Retry the download of an ISO on all hypervisors where it is missing.

    Starts immediately and resets the number of failed attempts. Does nothing where the ISO is already downloaded.
    """
    iso = isos.get(iso_id)
    downloads.retry(iso, actor=kit.get_current_actor())
    kit.set_message(DOWNLOAD_MESSAGE)
    return iso
