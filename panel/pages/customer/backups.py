"""Backups of all instances: the list, and what can be done with a backup."""

from datetime import timedelta

from flask import Blueprint, request, url_for
from marshmallow import ValidationError

from panel.auth.browser_session import (
    get_current_access,
    get_current_account,
    get_current_actor,
    has_permission,
    require_page_permission,
)
from panel.core import clock
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import InstanceBackup
from panel.pages.shared import followed_tasks
from panel.pages.shared.area import get_instance, tab_url
from panel.pages.shared.backup_timeline import build_timeline
from panel.pages.shared.backups import build_rows_context, describe_deletion
from panel.pages.shared.instances.media import find_error_message
from panel.schemas.base import In, Name, Text
from panel.schemas.instance_backups import BACKUP_TYPES, BackupIdsIn, BackupRestoreIn
from panel.services import backup_restore_tests, backup_restores, instance_backups, instances
from panel.web.audit_view import audit_label, parse_day
from panel.web.file_download import build_png_response
from panel.web.forms import Form, flatten_errors
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.workflows import backup_deletion, backup_restore

bp = Blueprint("backups", __name__, url_prefix="/backups")
NAVIGATION = NavigationEntry(
    "storage", "Backups", "backups.index", icon="archive", permission="instances.view", position=40, shortcut="b"
)
SEARCH_RESULTS = (
    SearchResults("backup", "Backups", icon="archive", url=lambda row: url_for("backups.index", search=row.name)),
)
CHANGE_PERMISSION, RESTORE_PERMISSION, IMAGE_PERMISSION = "instances.backups", "instances.restore", "images.manage"
TRUTHS = {"true": True, "false": False}
FILTER_VALUES = {
    "instance_state": {"live": "live", "deleted": "deleted"},
    "backup_type": {name: name for name in BACKUP_TYPES},
    "protected": TRUTHS,
    "created": TRUTHS,
}
"""The filters with few values: {text in the address: value}."""
SORTS = {
    "oldest": {"dir": "asc"},
    "largest": {"sort": "size"},
    "smallest": {"sort": "size", "dir": "asc"},
    "name": {"sort": "name", "dir": "asc"},
}
"""Orders of the list besides the newest first."""


class RestoreForm(BackupRestoreIn):
    typed = Text(required=True)


class ImageForm(In):
    name = Name(required=True)


def get_own(backup_id):
    return instance_backups.get(backup_id, get_current_access())


def get_live_instance(backup):
    return get_instance(backup.instance_id)


def get_back_url(backup):
    """Return the page with the backup: that of its instance, or the list."""
    return tab_url(backup.instance, "backups") if backup.instance else url_for("backups.index")


def parse_filters():
    """Return the request's filters for `instance_backups.listing`. Unknown values are ignored."""
    zone, filters = get_current_account().timezone, {}
    for name, values in FILTER_VALUES.items():
        if request.args.get(name) in values:
            filters[name] = values[request.args[name]]
    if search := request.args.get("search", "").strip()[:255]:
        filters["search"] = search
    if since := parse_day("since", zone):
        filters["created_from"] = since
    if until := parse_day("until", zone):
        filters["created_to"] = until + timedelta(days=1, microseconds=-1)
    return filters


ORDERS = {"name": InstanceBackup.name, "size": InstanceBackup.size, "created": InstanceBackup.id}


@bp.get("")
@require_page_permission("instances.view")
def index():
    filters = parse_filters()
    order = SORTS.get(request.args.get("sort"), {})
    page = Page(instance_backups.listing(get_current_access(), **order, **filters), orders=ORDERS)
    context = build_rows_context(page.rows) | {"timeline": build_timeline(**filters)}
    return render("customer/backups/index.html", "rows", page=page, filtered=bool(filters), **context)


@bp.get("/delete")
@require_page_permission("instances.view")
def show_list():
    """Redirect to the list: the results of a deletion are shown once."""
    return redirect_to(url_for(".index"))


@bp.post("/delete")
@require_page_permission(CHANGE_PERMISSION)
@audit_label("Delete backups")
def delete_selected():
    """Delete the selected backups, each independently, and show the results."""
    ids, back_url, since = parse_ids(), find_list_url(), clock.now()
    query = instance_backups.listing(get_current_access()).where(InstanceBackup.id.in_(ids))
    backups = {backup.id: backup for backup in session.scalars(query)}
    names = {backup.id: backup.name for backup in backups.values()}
    answer = backup_deletion.delete_all(ids, backups, actor=get_current_actor(), is_missing_refused=False)[0]
    context = {
        "missing_message": _("These backups no longer exist."),
        "label": _("Delete backups"),
        "summary": describe_deletion(answer["results"]),
        "result_names": names,
        "results": answer["results"],
    }
    context |= followed_tasks.follow([row["id"] for row in answer["results"] if row["success"]], since)
    return followed_tasks.render_results("customer/backups/results.html", back_url=back_url, **context)


def parse_ids():
    try:
        return BackupIdsIn().load({"backups": request.form.getlist("ids")})["backups"]
    except ValidationError as error:
        messages = error.normalized_messages()
        raise Invalid(flatten_errors(messages) if "ids" in request.form else _("Select at least one backup.")) from None


def find_list_url():
    """Return the page on which the backups were selected: that of the instance in the form, or the list."""
    if instance_id := request.form.get("instance_id", "")[:36]:
        return tab_url(instances.get(instance_id, get_current_access()), "backups")
    return url_for(".index")


@bp.post("/<backup_id>/delete")
@require_page_permission(CHANGE_PERMISSION)
@audit_label("Delete backup")
def delete(backup_id):
    backup = get_own(backup_id)
    back_url = get_back_url(backup)
    backup_deletion.delete(backup, actor=get_current_actor())
    return build_action_response(_("Deletion of the backup requested."), back_url, "info")


@bp.post("/<backup_id>/protection/<any(on, off):switch>")
@require_page_permission(CHANGE_PERMISSION)
@audit_label("Protect backup")
def protect(backup_id, switch):
    backup = instance_backups.set_protected(get_own(backup_id), switch == "on")
    message = _("Backup protected.") if backup.protected else _("Protection removed.")
    return build_action_response(message, get_back_url(backup))


@bp.post("/<backup_id>/retry")
@require_page_permission(CHANGE_PERMISSION)
@audit_label("Back up")
def retry(backup_id):
    """Back up the instance again, as the failed backup was requested."""
    backup = get_own(backup_id)
    if backup.status != "failed":
        raise Invalid(_("The backup has not failed."))
    options = {name: getattr(backup, name) for name in ("name", "description", "backup_type", "backup_device")}
    instance_backups.create(get_live_instance(backup), actor=get_current_actor(), **options)
    return build_action_response(_("Backup requested."), get_back_url(backup))


@bp.get("/<backup_id>/restore")
@require_page_permission(RESTORE_PERMISSION)
def choose_restore(backup_id):
    return restore_page(get_own(backup_id), Form(RestoreForm))


@bp.post("/<backup_id>/restore")
@require_page_permission(RESTORE_PERMISSION)
@audit_label("Restore backup")
def restore(backup_id):
    """Restore in place. Requires the instance's name, because all later data is lost."""
    backup, form = get_own(backup_id), Form(RestoreForm)
    instance = get_live_instance(backup)

    def confirm_restore(typed, target_disk_id):
        if typed.strip() != instance.display_name:
            raise Invalid(_("Nothing was changed."), typed=_("The name does not match."))
        return backup_restore.run(instance, backup, actor=get_current_actor(), target_disk_id=target_disk_id)

    if form.submit(confirm_restore):
        flash_message(_("Restore requested."))
        return redirect_to(tab_url(instance, "backups"))
    return restore_page(get_own(backup_id), form)


def restore_page(backup, form):
    instance = instances.get(backup.instance_id, get_current_access())
    stored_ids = {disk["id"] for disk in backup.disks}
    context = {
        "backup": backup,
        "instance": instance,
        "disks": [disk for disk in instance.disks if disk.attached and disk.id in stored_ids],
        "restore_error": find_error_message(lambda: backup_restores.get_restore_targets(instance, backup)),
    }
    return render("customer/backups/restore.html", "form", status=form.status, form=form, **context)


@bp.get("/<backup_id>/restore-test/screenshot")
@require_page_permission(RESTORE_PERMISSION)
def show_screenshot(backup_id):
    """Show the screen at the end of the latest restore test."""
    backup = get_own(backup_id)
    return build_png_response(backup_restore_tests.map_latest([backup.id]).get(backup.id))


@bp.get("/<backup_id>/image")
@require_page_permission(IMAGE_PERMISSION)
def new_image(backup_id):
    return image_page(get_own(backup_id), Form(ImageForm))


@bp.post("/<backup_id>/image")
@require_page_permission(IMAGE_PERMISSION)
@audit_label("Create image")
def create_image(backup_id):
    backup, form = get_own(backup_id), Form(ImageForm)
    if form.submit(lambda name: backup_restores.create_image(backup, name=name, actor=get_current_actor())):
        flash_message(_("Image %(name)s requested.", name=form.result.name))
        return redirect_to(url_for("images.index") if has_permission("images.view") else get_back_url(backup))
    return image_page(get_own(backup_id), form)


def image_page(backup, form):
    error = find_error_message(lambda: backup_restores.ensure_restorable(backup))
    return render(
        "customer/backups/image.html", "form", status=form.status, form=form, backup=backup, image_error=error
    )
