"""Announcements and maintenance notices."""

from api import kit
from panel.auth import permissions
from panel.schemas.announcements import AdminAnnouncementOut, AnnouncementIn, AnnouncementOut, AnnouncementPatch
from panel.schemas.base import PageQuery
from panel.services import announcements

user = kit.User("announcement", __name__, description="Announcements")
admin = kit.Admin("announcement", __name__, description="Announcements")
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
ANNOUNCEMENTS = kit.build_wrapped_schema("announcements", kit.build_page_schema(AnnouncementOut))


@user.get("/announcements", op="list", can=permissions.ANY_USER, query=PageQuery, out=ANNOUNCEMENTS)
def list_shown():
    """List the announcements that are shown to the token's user now.

    Those that the user has dismissed are left out. They are in the inbox, too.
    """
    return {"message": None, "announcements": kit.paginate(announcements.select_shown(kit.get_current_access()))}


@user.post(
    "/announcement/<announcement_id>/dismiss",
    op="dismiss",
    can=permissions.PERSONAL,
    out=kit.build_result_schema(),
)
def dismiss(announcement_id):
    """Hide an announcement from the token's user.

    Returns 404 if it is not shown to the user, or was dismissed before.
    """
    announcements.dismiss(kit.get_current_access(), announcement_id)
    return {"message": "Announcement dismissed."}


@admin.get(
    "/announcements",
    op="list",
    can=READ_PERMISSION,
    query=PageQuery,
    out=kit.build_admin_page_schema(AdminAnnouncementOut),
)
def listing():
    """List all announcements, those that end last first.

    Announcements are deleted a year after their end.
    """
    return kit.paginate(announcements.listing())


@admin.post("/announcements", op="create", can=WRITE_PERMISSION, body=AnnouncementIn, out=AdminAnnouncementOut)
def create(body):
    """Create an announcement or a maintenance notice.

    It is shown on every page until its end, and within a minute it is in the inboxes of its audience: all customers,
    those with instances at a location, or one customer with its team. A maintenance notice is shown at once, an
    announcement from `starts_at` on. Returns 422 under `ends_at`, `group_id` or `account_id`.
    """
    kit.set_message("Announcement created.")
    return announcements.create(**body)


@admin.get("/announcement/<announcement_id>", op="get", can=READ_PERMISSION, out=AdminAnnouncementOut)
def show(announcement_id):
    """Get an announcement.

    Returns 404 if it does not exist.
    """
    return announcements.get(announcement_id)


@admin.patch(
    "/announcement/<announcement_id>",
    op="update",
    can=WRITE_PERMISSION,
    body=AnnouncementPatch,
    out=AdminAnnouncementOut,
)
def update(body, announcement_id):
    """Update an announcement.

    Only the fields you send are changed. Messages that are in inboxes stay as they are.
    """
    kit.set_message("Announcement updated.")
    return announcements.update(announcements.get(announcement_id), **body)


@admin.delete("/announcement/<announcement_id>", op="delete", can=WRITE_PERMISSION)
def delete(announcement_id):
    """Delete an announcement.

    It is not shown any more. Messages that are in inboxes stay.
    """
    announcements.delete_announcement(announcements.get(announcement_id))
    kit.set_message("Announcement deleted.")
