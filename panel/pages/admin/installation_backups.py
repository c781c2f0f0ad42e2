"""Backups of the installation itself: runs, schedule and destinations."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.db import session
from panel.pages.admin.backup_destinations import get_requested_kind, run_check
from panel.pages.admin.backup_policies import WEEKDAYS
from panel.pages.admin.destination_form import DestinationForm
from panel.pages.admin.destination_kinds import DESTINATION_KINDS, get_kind
from panel.schemas.installation_backups import (
    ARCHIVE_STORAGE_TYPES,
    RUN_STATUSES,
    InstallationBackupSettingsPatch,
    InstallationDestinationIn,
    InstallationDestinationPatch,
)
from panel.services import backup_destinations, installation_backups
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_installation_backups", __name__, url_prefix="/admin/installation-backups")
NAVIGATION = NavigationEntry(
    "platform",
    "Installation backups",
    "admin_installation_backups.index",
    icon="archive",
    permission="admin:settings:read",
    position=75,
)
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
DESTINATION_SCHEMAS = (InstallationDestinationIn, InstallationDestinationPatch)
ARCHIVE_KINDS = [(name, DESTINATION_KINDS[name].label) for name in ARCHIVE_STORAGE_TYPES]


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    status = request.args.get("status") if request.args.get("status") in RUN_STATUSES else None
    context = {"settings": installation_backups.get_settings(), "filtered": status is not None}
    page = Page(installation_backups.listing(status))
    return render("admin/installation_backups/index.html", "rows", page=page, **context)


@bp.post("/run")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Back up the installation")
def back_up():
    installation_backups.start(actor=get_current_actor())
    return build_action_response(_("Backup requested."), url_for(".index"))


@bp.post("/<run_id>/delete")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Delete backup of the installation")
def delete(run_id):
    installation_backups.request_deletion(installation_backups.get(run_id), actor=get_current_actor())
    return build_action_response(_("Deletion requested."), url_for(".index"))


@bp.get("/settings")
@require_page_permission(READ_PERMISSION)
def settings():
    row = installation_backups.get_settings()
    names = InstallationBackupSettingsPatch().fields.keys() - {"passphrase"}
    return settings_page(Form(InstallationBackupSettingsPatch, initial={name: getattr(row, name) for name in names}))


@bp.post("/settings")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Change backups of the installation")
def update_settings():
    form = Form(InstallationBackupSettingsPatch)
    if form.submit(installation_backups.update_settings):
        flash_message(_("Settings saved."))
        return redirect_to(url_for(".index"))
    return settings_page(form)


def settings_page(form):
    context = {
        "settings": installation_backups.get_settings(),
        "destinations": session.execute(installation_backups.select_destination_names()).all(),
        "weekdays": list(enumerate(WEEKDAYS)),
    }
    return render("admin/installation_backups/settings.html", "form", status=form.status, form=form, **context)


@bp.get("/destinations")
@require_page_permission(READ_PERMISSION)
def destinations():
    page = Page(installation_backups.select_destinations())
    return render("admin/installation_backups/destinations.html", "rows", page=page, get_kind=get_kind)


@bp.get("/destinations/new")
@require_page_permission(WRITE_PERMISSION)
def new_destination():
    kind_name = get_requested_archive_kind(request.args)
    initial = {"enabled": True, "storage_type": kind_name, "name": request.args.get("name", "")}
    return destination_page(build_destination_form(kind_name, is_new=True, initial=initial))


@bp.post("/destinations/new")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Add backup destination")
def create_destination():
    form = build_destination_form(get_requested_archive_kind(request.form), is_new=True)
    if form.submit(installation_backups.create_destination):
        flash_message(_("Destination %(name)s added. A worker checks it.", name=form.result.name), "info")
        return redirect_to(url_for(".destinations"))
    return destination_page(form)


def get_requested_archive_kind(values):
    name = get_requested_kind(values)
    return name if name in ARCHIVE_STORAGE_TYPES else ARCHIVE_STORAGE_TYPES[0]


def build_destination_form(kind_name, **options):
    return DestinationForm(kind_name, schemas=DESTINATION_SCHEMAS, **options)


def destination_page(form, destination=None):
    context = {"form": form, "destination": destination, "kinds": ARCHIVE_KINDS}
    return render("admin/installation_backups/destination_form.html", "form", status=form.status, **context)


@bp.get("/destinations/<destination_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def edit_destination(destination_id):
    destination = installation_backups.get_destination(destination_id)
    initial = {"name": destination.name, "enabled": destination.enabled}
    form = build_destination_form(destination.storage_type, is_new=False, initial=initial)
    return destination_page(form, destination)


@bp.post("/destinations/<destination_id>/edit")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Change backup destination")
def update_destination(destination_id):
    destination = installation_backups.get_destination(destination_id)
    form = build_destination_form(destination.storage_type, is_new=False)
    if form.submit(lambda **values: backup_destinations.update(destination, **values)):
        flash_message(_("Destination %(name)s saved.", name=destination.name))
        return redirect_to(url_for(".destinations"))
    return destination_page(form, installation_backups.get_destination(destination_id))


@bp.post("/destinations/<destination_id>/test")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Test backup destination")
def test_destination(destination_id):
    return run_check(installation_backups.get_destination(destination_id), url_for(".destinations"))


@bp.post("/destinations/<destination_id>/delete")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Remove backup destination")
def delete_destination(destination_id):
    destination = installation_backups.get_destination(destination_id)
    name = destination.name
    backup_destinations.delete(destination)
    return build_action_response(_("Destination %(name)s removed from the panel.", name=name), url_for(".destinations"))
