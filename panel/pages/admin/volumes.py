"""All customers' volumes."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.db import session
from panel.models import Volume
from panel.pages.shared.backups import find_volume_backup_errors
from panel.schemas.volumes import AdminVolumeBackupIn
from panel.services import backup_destinations, volume_backups, volumes
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.workflows import backup_deletion

bp = Blueprint("admin_volumes", __name__, url_prefix="/admin/volumes")
NAVIGATION = NavigationEntry(
    "resources",
    "Volumes",
    "admin_volumes.index",
    icon="database",
    permission="admin:volumes:read",
    position=20,
    shortcut="v",
)
SEARCH_RESULTS = (
    SearchResults(
        "volume", "Volumes", icon="database", url=lambda row_id: url_for("admin_volumes.show", volume_id=row_id)
    ),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:volumes:read", "admin:volumes:write"
ORDERS = {"name": Volume.name}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    return render(
        "admin/volumes/index.html",
        "rows",
        page=Page(volumes.listing(search=search, deleting=True), orders=ORDERS),
        filtered=bool(search),
    )


@bp.get("/<volume_id>")
@require_page_permission(READ_PERMISSION)
def show(volume_id):
    return volume_page(volume_id, Form(AdminVolumeBackupIn))


def volume_page(volume_id, form):
    volume = volumes.get(volume_id)
    destinations = backup_destinations.select_for_hypervisor(volume.storage.hypervisor)
    context = {
        "volume": volume,
        "form": form,
        "destinations": [destination for destination in session.scalars(destinations) if destination.enabled],
        "find_volume_backup_errors": find_volume_backup_errors,
    }
    return render("admin/volumes/show.html", "live", status=form.status, **context)


@bp.post("/<volume_id>/backup")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Back up volume")
def back_up(volume_id):
    form = Form(AdminVolumeBackupIn)
    if form.submit(lambda **values: volume_backups.create(volumes.get(volume_id), actor=get_current_actor(), **values)):
        flash_message(_("Backup requested."))
        return redirect_to(url_for(".show", volume_id=volume_id))
    return volume_page(volume_id, form)


@bp.post("/<volume_id>/backup/<backup_id>/<any(restore, delete):action>")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Use backup of volume")
def use_backup(volume_id, backup_id, action):
    backup, back_url = volume_backups.get(volume_id, backup_id), url_for(".show", volume_id=volume_id)
    if action == "delete":
        backup_deletion.delete(backup, actor=get_current_actor())
        return build_action_response(_("Deletion of the backup requested."), back_url, "info")
    volume_backups.restore(backup, mode="in_place", account=backup.account, actor=get_current_actor())
    return build_action_response(_("Restore requested."), back_url)


@bp.post("/<volume_id>/<any(detach, delete):action>")
@require_page_permission(WRITE_PERMISSION)
def act(volume_id, action):
    getattr(volumes, action)(volumes.get(volume_id), actor=get_current_actor(), by_operator=True)
    return build_action_response(
        _("Detach requested.") if action == "detach" else _("Deletion requested."), url_for(".index")
    )
