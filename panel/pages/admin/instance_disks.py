"""What only operators do with the disks of an instance: adding some, and growing them."""

from flask import Blueprint

from panel.auth.browser_session import actor, page_can
from panel.pages.shared.area import at
from panel.pages.shared.instances.operator_tabs import Growth
from panel.pages.shared.instances.show import shown
from panel.schemas.disks import DiskIn
from panel.services import disks, instances
from panel.web.forms import Form
from panel.web.htmx import did, render

bp = Blueprint("admin_instance_disks", __name__, url_prefix="/admin/instances/<instance_id>/disks")
WRITE = "admin:instances:write"


@bp.post("/add")
@page_can(WRITE)
def add(instance_id):
    instance, form = instances.get(instance_id), Form(DiskIn)
    if form.submit(lambda **wanted: disks.add(instance, actor=actor(), **wanted)):
        return did("New disk requested.", at(instance, "storage"))
    return again(instance_id, form, adding=form)


@bp.post("/grow")
@page_can(WRITE)
def grow(instance_id):
    instance, form = instances.get(instance_id), Form(Growth)
    if form.submit(lambda disk_id, new_size: disks.resize(disks.get(instance, disk_id), size=new_size, actor=actor())):
        return did(
            "Growth of the disk requested." if form.result else "It has that size already.", at(instance, "storage")
        )
    return again(instance_id, form, growing=form)


def again(instance_id, form, **filled):
    context = shown(instance_id, "storage", **filled)
    return render("admin/instances/show.html", "room", status=form.status, **context)
