"""Volumes: the list, creating one, and the pages of one."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor, has_permission, require_page_permission
from panel.core.db import session
from panel.models import Instance, Volume
from panel.pages.shared.backups import find_volume_backup_errors
from panel.schemas.volumes import VolumeAttach, VolumeIn, VolumeResize, VolumeRestore, VolumeSnapshotIn
from panel.services import catalog, instances, projects, usage, volume_backups, volume_plans, volumes
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.workflows import backup_deletion

bp = Blueprint("volumes", __name__, url_prefix="/volumes")
NAVIGATION = NavigationEntry(
    "storage",
    "Volumes",
    "volumes.index",
    icon="database",
    permission="volumes.view",
    position=10,
    is_billed=True,
    shortcut="v",
)
SEARCH_RESULTS = (
    SearchResults("volume", "Volumes", icon="database", url=lambda row: url_for("volumes.show", volume_id=row.id)),
)
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = "volumes.view", "volumes.manage", "volumes.delete"


def billing_error():
    """Return the reason why volumes cannot be used (billing is off), or None."""
    return usage.billing_error(get_current_access())


def get_own(volume_id):
    return volumes.get(volume_id, get_current_access())


def list_projects():
    return session.scalars(projects.listing(get_current_access())).all() if has_permission("projects.view") else []


def list_plans():
    return session.scalars(volume_plans.select_offered()).all()


ORDERS = {"name": Volume.name}


@bp.get("")
@require_page_permission(VIEW_PERMISSION)
def index():
    project_options = [(project.id, project.name) for project in list_projects()]
    filters = {"search": request.args.get("search", "")[:255]}
    filters["project_id"] = next(
        (project_id for project_id, name in project_options if project_id == request.args.get("project")), None
    )
    page = Page(volumes.listing(get_current_access(), **filters), orders=ORDERS)
    moving = any(volume.status == "pending" or volume.pending for volume in page)
    context = {
        "page": page,
        "billing_error": billing_error(),
        "pending_move": moving,
        "projects": project_options,
        "filtered": any(filters.values()),
    }
    return render("customer/volumes/index.html", "rows", **context)


@bp.get("/backups")
@require_page_permission(VIEW_PERMISSION)
def backups():
    """List the backups of all volumes, also of deleted ones."""
    search = request.args.get("search", "").strip()[:255]
    page = Page(volume_backups.listing(get_current_access(), search=search))
    context = {
        "page": page,
        "billing_error": billing_error(),
        "filtered": bool(search),
        "find_volume_backup_errors": find_volume_backup_errors,
        "has_changing_backups": any(backup.is_changing for backup in page.rows),
    }
    return render("customer/volumes/backups.html", "rows", **context)


@bp.get("/new")
@require_page_permission(MANAGE_PERMISSION)
def new():
    return form_page(Form(VolumeIn, initial={"project_id": request.args.get("project")}))


def find_source_backup():
    """Return the backup from which the new volume is created, or None."""
    if backup_id := request.args.get("backup"):
        return volume_backups.get_by_id(backup_id[:36], get_current_access())
    return None


@bp.post("/new")
@require_page_permission(MANAGE_PERMISSION)
def create():
    usage.ensure_billing_enabled(get_current_access())
    form, backup = Form(VolumeIn), find_source_backup()

    def create_volume(**values):
        access, actor = get_current_access(), get_current_actor()
        if backup is None:
            return volumes.create(access, actor=actor, **values).id
        return volume_backups.restore(backup, mode="new_volume", account=access, actor=actor, **values).resource_id

    if form.submit(create_volume):
        flash_message(_("Creation of volume %(name)s requested.", name=form.get_value("name")))
        return redirect_to(url_for(".show", volume_id=form.result))
    return form_page(form)


def form_page(form):
    context = {
        "backup": find_source_backup(),
        "plans": list_plans(),
        "locations": session.scalars(catalog.select_locations(get_current_access())).all(),
    }
    context["projects"] = list_projects()
    return render(
        "customer/volumes/new.html", "form", status=form.status, form=form, billing_error=billing_error(), **context
    )


@bp.get("/<volume_id>")
@require_page_permission(VIEW_PERMISSION)
def show(volume_id):
    return volume_page(volume_id)


def volume_page(volume_id, **forms):
    volume = get_own(volume_id)
    places = instances.listing(get_current_access()).where(Instance.group_id == volume.group_id)
    context = {
        "volume": volume,
        "billing_error": billing_error(),
        "instances": session.scalars(places.limit(500)).unique().all() if has_permission("instances.view") else [],
        "projects": list_projects(),
        "plans": [plan for plan in list_plans() if plan.volume_plan_group_id == volume.plan.volume_plan_group_id],
        "attach_form": forms.get("attach_form") or Form(VolumeAttach),
        "resize_form": forms.get("resize_form") or Form(VolumeResize),
        "snapshot_form": forms.get("snapshot_form") or Form(VolumeSnapshotIn),
        "find_volume_backup_errors": find_volume_backup_errors,
    }
    status = max(form.status for form in (context["attach_form"], context["resize_form"], context["snapshot_form"]))
    return render("customer/volumes/show.html", "live", status=status, **context)


def submit_form(volume_id, name, schema, action, message):
    """Submit one of the page's forms. On an error, render the page again."""
    usage.ensure_billing_enabled(get_current_access())
    volume, form = get_own(volume_id), Form(schema)
    if form.submit(lambda **values: action(volume, actor=get_current_actor(), **values)):
        flash_message(message)
        return redirect_to(url_for(".show", volume_id=volume_id))
    return volume_page(volume_id, **{name: form})


@bp.post("/<volume_id>/attach")
@require_page_permission(MANAGE_PERMISSION)
def attach(volume_id):
    def to(volume, **values):
        return volumes.attach(volume, account=get_current_access(), **values)

    return submit_form(volume_id, "attach_form", VolumeAttach, to, _("Attachment of the volume requested."))


@bp.post("/<volume_id>/resize")
@require_page_permission(MANAGE_PERMISSION)
def resize(volume_id):
    return submit_form(volume_id, "resize_form", VolumeResize, volumes.resize, _("Resize of the volume requested."))


@bp.post("/<volume_id>/snapshot")
@require_page_permission(MANAGE_PERMISSION)
def snapshot(volume_id):
    return submit_form(volume_id, "snapshot_form", VolumeSnapshotIn, volumes.create_snapshot, _("Snapshot requested."))


@bp.post("/<volume_id>/detach")
@require_page_permission(MANAGE_PERMISSION)
def detach(volume_id):
    usage.ensure_billing_enabled(get_current_access())
    volumes.detach(get_own(volume_id), actor=get_current_actor())
    return build_action_response(_("Detachment of the volume requested."), url_for(".show", volume_id=volume_id))


@bp.post("/<volume_id>/delete")
@require_page_permission(DELETE_PERMISSION)
def delete(volume_id):
    usage.ensure_billing_enabled(get_current_access())
    volume = get_own(volume_id)
    volumes.delete(volume, actor=get_current_actor())
    flash_message(_("Deletion of volume %(name)s requested.", name=volume.name))
    return redirect_to(url_for(".index"))


@bp.post("/<volume_id>/snapshot/<snapshot_id>/<any(restore, copy, delete):action>")
@require_page_permission(MANAGE_PERMISSION)
def use_snapshot(volume_id, snapshot_id, action):
    usage.ensure_billing_enabled(get_current_access())
    snapshot = volumes.get_snapshot(get_own(volume_id), snapshot_id)
    if action == "delete":
        volumes.delete_snapshot(snapshot, actor=get_current_actor())
    else:
        place = {"volume_plan_id": snapshot.volume.plan_id, "hypervisor_group_id": snapshot.volume.group_id}
        how = {"mode": "in_place"} if action == "restore" else {"mode": "new_volume", **place}
        volumes.restore(snapshot, account=get_current_access(), actor=get_current_actor(), **VolumeRestore().load(how))
    messages = {"restore": _("Restore requested."), "copy": _("New volume from the snapshot requested.")}
    return build_action_response(
        messages.get(action, "Deletion of the snapshot requested."), url_for(".show", volume_id=volume_id)
    )


@bp.post("/<volume_id>/backup")
@require_page_permission(MANAGE_PERMISSION)
@audit_label("Back up volume")
def back_up(volume_id):
    usage.ensure_billing_enabled(get_current_access())
    volume_backups.create(get_own(volume_id), actor=get_current_actor())
    return build_action_response(_("Backup requested."), url_for(".show", volume_id=volume_id))


@bp.post("/<volume_id>/backup/<backup_id>/<any(restore, delete):action>")
@require_page_permission(MANAGE_PERMISSION)
@audit_label("Use backup of volume")
def use_backup(volume_id, backup_id, action):
    access = get_current_access()
    usage.ensure_billing_enabled(access)
    backup = volume_backups.get(volume_id, backup_id, access)
    back_url = url_for(".show", volume_id=volume_id) if backup.volume else url_for(".backups")
    if action == "delete":
        backup_deletion.delete(backup, actor=get_current_actor())
        return build_action_response(_("Deletion of the backup requested."), back_url, "info")
    volume_backups.restore(backup, mode="in_place", account=access, actor=get_current_actor())
    return build_action_response(_("Restore requested."), back_url)
