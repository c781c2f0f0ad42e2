"""Storages of a hypervisor: add, change, remove. The hypervisor's page lists them."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.schemas.hypervisors import StorageIn, StoragePatch
from panel.services import capacity_forecast, hypervisors
from panel.services.metrics.storages import STORAGE_TIME_RANGES, get_storage_series
from panel.web import charts
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_storages", __name__, url_prefix="/admin/hypervisors")
READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"
DEFAULT_TIME_RANGE = "1w"
STEP_NOTES = {
    900: lazy_gettext("The last value of every 15 minutes."),
    3600: lazy_gettext("The last value of every hour."),
    86400: lazy_gettext("The last value of every day."),
}


@bp.get("/<hypervisor_id>/storages/new")
@require_page_permission(WRITE_PERMISSION)
def new(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    form = Form(StorageIn, initial={"hypervisor_id": hypervisor.id, "overcommit": 1, "enabled": True})
    return render("admin/storages/new.html", form=form, hypervisor=hypervisor)


@bp.post("/<hypervisor_id>/storages/new")
@require_page_permission(WRITE_PERMISSION)
def create(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    form = Form(StorageIn)
    if form.submit(lambda hypervisor_id, **data: hypervisors.create_storage(hypervisor, **data)):
        flash_message(_("Storage %(name)s added. A worker creates its directory.", name=form.result.name))
        return redirect_to(hypervisor_url(form.result))
    return render("admin/storages/new.html", "form", status=form.status, form=form, hypervisor=hypervisor)


@bp.get("/storages/<storage_id>/metrics")
@require_page_permission(READ_PERMISSION)
def show_metrics(storage_id):
    storage = hypervisors.get_storage(storage_id)
    days_left = capacity_forecast.list_storage_days_left([storage])
    context = {"series": load_series(storage), "charts": charts, "days_left": days_left}
    return render("admin/storages/metrics.html", storage=storage, now=hypervisors.describe_storage(storage), **context)


@bp.get("/storages/<storage_id>/metrics/data")
@require_page_permission(READ_PERMISSION)
def show_metrics_data(storage_id):
    """Return the chart data as JSON, for the page's script."""
    storage = hypervisors.get_storage(storage_id)
    capacity = storage.capacity / 1024**2
    return charts.build_plot_data(
        load_series(storage), {"used_space": capacity, "allocated": max(capacity * storage.overcommit, 1)}
    )


def load_series(storage):
    """Return the requested series of the storage, with its charts."""
    requested = request.args.get("range")
    time_range = requested if requested in STORAGE_TIME_RANGES else DEFAULT_TIME_RANGE
    return get_storage_series(storage, time_range) | {
        "charts": charts.STORAGE_CHARTS,
        "time_ranges": charts.STORAGE_TIME_RANGES,
        "step_note": STEP_NOTES[STORAGE_TIME_RANGES[time_range][1]],
        "no_data_note": _("No data for this period. Workers read the storage every few minutes."),
    }


@bp.get("/storages/<storage_id>")
@require_page_permission(WRITE_PERMISSION)
def edit(storage_id):
    storage = hypervisors.get_storage(storage_id)
    return render("admin/storages/edit.html", storage=storage, form=Form(StoragePatch, initial=storage))


@bp.post("/storages/<storage_id>")
@require_page_permission(WRITE_PERMISSION)
def update(storage_id):
    storage = hypervisors.get_storage(storage_id)
    form = Form(StoragePatch)
    if form.submit(lambda **data: hypervisors.update_storage(storage, **data)):
        flash_message(_("Storage %(name)s saved.", name=storage.name))
        return redirect_to(hypervisor_url(storage))
    return render("admin/storages/edit.html", "form", status=form.status, storage=storage, form=form)


@bp.post("/storages/<storage_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(storage_id):
    storage = hypervisors.get_storage(storage_id)
    address = hypervisor_url(storage)
    hypervisors.delete_storage(storage)
    message = _("Storage %(name)s removed from the panel. Its files stay on the host.", name=storage.name)
    return build_action_response(message, address)


def hypervisor_url(storage):
    return url_for("admin_hypervisors.show", hypervisor_id=storage.hypervisor_id)
