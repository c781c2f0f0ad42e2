"""Where backups of instances are stored."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.db import session
from panel.core.errors import Invalid
from panel.pages.admin.destination_form import DestinationForm
from panel.pages.admin.destination_kinds import DESTINATION_KINDS, get_kind
from panel.schemas.base import In, Text
from panel.services import backup_destinations, backup_growth, hypervisors, lost_destinations
from panel.web.area_charts import AreaChart
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext, translate
from panel.workflows import destination_check

bp = Blueprint("admin_backup_destinations", __name__, url_prefix="/admin/backup-destinations")
NAVIGATION = NavigationEntry(
    "platform",
    "Backup destinations",
    "admin_backup_destinations.index",
    icon="device-floppy",
    permission="admin:hypervisors:read",
    position=70,
    select_attention=lambda _access: backup_destinations.select_unavailable(),
)
SEARCH_RESULTS = (
    SearchResults(
        "backup_destination",
        "Backup destinations",
        icon="device-floppy",
        url=lambda row_id: url_for("admin_backup_destinations.show", destination_id=row_id),
    ),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"
TYPED_FIELDS = ("name", "bandwidth_limit", "copy_to_id", "copy_retention_days")
"""Fields that keep their text when another kind is chosen."""


class ForgetForm(In):
    """The name of the destination, as confirmation."""

    typed = Text(required=True)


BYTES_PER_MIB = 1024**2
CHECK_STEP_LABELS = {
    "reachability": lazy_gettext("Reach the storage"),
    "authentication": lazy_gettext("Sign in"),
    "bucket": lazy_gettext("Find the bucket"),
    "namespace": lazy_gettext("Find the datastore and namespace"),
    "privileges": lazy_gettext("Check the privileges of the token"),
    "write_access": lazy_gettext("Write, read and delete an object"),
}
"""Labels of the steps of a check. Other names are shown as they are."""


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(backup_destinations.listing(search))
    contents = backup_destinations.count_contents(destination.id for destination in page)
    return render(
        "admin/backup_destinations/index.html",
        "rows",
        page=page,
        contents=contents,
        growth=backup_growth.map_growth(page, backup_growth.GROWTH_DAYS),
        get_kind=get_kind,
        filtered=bool(search),
    )


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    kind_name = get_requested_kind(request.args)
    defaults = {"enabled": True, "bandwidth_limit": 0, "copy_retention_days": 30}
    typed = {name: value for name, value in request.args.items() if name in TYPED_FIELDS}
    initial = defaults | typed | {"storage_type": kind_name, "hypervisor_ids": request.args.getlist("hypervisor_ids")}
    return form_page(DestinationForm(kind_name, is_new=True, initial=initial))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = DestinationForm(get_requested_kind(request.form), is_new=True)
    if form.submit(backup_destinations.create):
        flash_message(_("Destination %(name)s added. A worker checks it.", name=form.result.name), "info")
        return redirect_to(url_for(".show", destination_id=form.result.id))
    return form_page(form)


def get_requested_kind(values):
    """Return the kind that the form asks for, or the first."""
    name = values.get("storage_type")
    return name if name in DESTINATION_KINDS else next(iter(DESTINATION_KINDS))


def form_page(form, destination=None):
    context = {
        "destination": destination,
        "kinds": [(name, kind.label) for name, kind in DESTINATION_KINDS.items()],
        "hypervisors": session.execute(hypervisors.select_names()).all(),
        "copy_targets": session.execute(backup_destinations.select_copy_targets(destination)).all(),
    }
    return render("admin/backup_destinations/form.html", "form", status=form.status, form=form, **context)


@bp.post("/fingerprint")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Read fingerprint of backup server")
def read_fingerprint():
    """Show the form with the fingerprint that the server presents. In a change, an empty host is the stored one."""
    destination_id = request.args.get("destination_id")
    destination = backup_destinations.get(destination_id) if destination_id else None
    form = DestinationForm("rbs", is_new=destination is None)
    form.fill_in_fingerprint(destination.config if destination else {}, actor=get_current_actor())
    return form_page(form, destination)


@bp.get("/<destination_id>")
@require_page_permission(READ_PERMISSION)
def show(destination_id):
    destination = backup_destinations.get(destination_id)
    context = {
        "contents": backup_destinations.count_contents([destination.id])[destination.id],
        "kind": get_kind(destination.storage_type),
        "step_labels": CHECK_STEP_LABELS,
        "growth": (growth := backup_growth.map_growth([destination]).get(destination.id)),
        "growth_chart": build_growth_chart(growth) if growth and len(growth.sizes) > 1 else None,
    }
    return render("admin/backup_destinations/show.html", "live", destination=destination, **context)


def build_growth_chart(growth):
    sizes = [None if size is None else size / BYTES_PER_MIB for size in growth.sizes]
    return AreaChart(_("Used space") if growth.is_used_space else _("Stored by backups"), "mib", [sizes])


@bp.get("/<destination_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def edit(destination_id):
    destination = backup_destinations.get(destination_id)
    names = ("name", "enabled", "bandwidth_limit", "copy_to_id", "copy_retention_days", "hypervisor_ids")
    initial = {name: getattr(destination, name) for name in names}
    return form_page(DestinationForm(destination.storage_type, is_new=False, initial=initial), destination)


@bp.post("/<destination_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def update(destination_id):
    destination = backup_destinations.get(destination_id)
    form = DestinationForm(destination.storage_type, is_new=False)
    if form.submit(lambda **values: backup_destinations.update(destination, **values)):
        flash_message(_("Destination %(name)s saved.", name=destination.name))
        return redirect_to(url_for(".show", destination_id=destination_id))
    return form_page(form, backup_destinations.get(destination_id))


@bp.post("/<destination_id>/<any(enable, disable):action>")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Enable or disable backup destination")
def switch(destination_id, action):
    destination = backup_destinations.update(backup_destinations.get(destination_id), enabled=action == "enable")
    if destination.enabled:
        text = _("New backups can be stored in %(name)s.", name=destination.name)
    else:
        text = _("New backups are not stored in %(name)s.", name=destination.name)
    return build_action_response(text, url_for(".show", destination_id=destination_id))


@bp.post("/<destination_id>/test")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Test backup destination")
def test(destination_id):
    return run_check(backup_destinations.get(destination_id), url_for(".show", destination_id=destination_id))


def run_check(destination, address):
    """Have a worker check the destination, and return the response."""
    destination = destination_check.run(destination)
    if destination.status == "available":
        text, level = _("%(name)s is available.", name=destination.name), "success"
    else:
        reason = translate(destination.status_detail)
        text, level = _("%(name)s is not available: %(reason)s", name=destination.name, reason=reason), "danger"
    return build_action_response(text, address, level)


@bp.post("/<destination_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(destination_id):
    destination = backup_destinations.get(destination_id)
    name = destination.name
    backup_destinations.delete(destination)
    flash_message(_("Destination %(name)s removed from the panel.", name=name))
    return redirect_to(url_for(".index"))


@bp.get("/<destination_id>/forget")
@require_page_permission(WRITE_PERMISSION)
def confirm_forget(destination_id):
    return render_forget_page(backup_destinations.get(destination_id), Form(ForgetForm))


@bp.post("/<destination_id>/forget")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Forget backup destination")
def forget(destination_id):
    """Forget a destination that is gone. Requires its name, because its backups are lost."""
    destination, form = backup_destinations.get(destination_id), Form(ForgetForm)
    name = destination.name

    def confirm(typed):
        if typed.strip() != name:
            raise Invalid(_("Nothing was changed."), typed=_("The name does not match."))
        return lost_destinations.forget(destination)

    if form.submit(confirm):
        flash_message(_("Destination %(name)s removed from the panel.", name=name))
        return redirect_to(url_for(".index"))
    return render_forget_page(backup_destinations.get(destination_id), form)


def render_forget_page(destination, form):
    context = {
        "destination": destination,
        "losses": lost_destinations.count_losses(destination),
        "errors": lost_destinations.list_forget_errors(destination),
    }
    return render("admin/backup_destinations/forget.html", "form", status=form.status, form=form, **context)
