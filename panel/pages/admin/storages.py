"""Storages of a hypervisor: add, change, remove. The hypervisor's page lists them."""

from flask import Blueprint, url_for

from panel.auth.browser_session import require_page_permission
from panel.schemas.hypervisors import StorageIn, StoragePatch
from panel.services import hypervisors
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("admin_storages", __name__, url_prefix="/admin/hypervisors")
WRITE_PERMISSION = "admin:hypervisors:write"


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
