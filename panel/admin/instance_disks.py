"""What only operators do with the disks of an instance: adding some, and growing them."""

from flask import Blueprint

from panel.auth.browser import actor, page_can
from panel.forms import Form
from panel.htmx import did, render
from panel.instance_pages.operators import Growth
from panel.instance_pages.show import shown
from panel.instance_pages.sides import at
from panel.schemas.disks import DiskIn
from panel.services import disks, instances

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
