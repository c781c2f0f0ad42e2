"""Operations on an instance's disks that only operators have: add and grow."""

from flask import Blueprint

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.pages.shared.area import tab_url
from panel.pages.shared.instances.operator_tabs import DiskGrowthForm
from panel.pages.shared.instances.show import build_context
from panel.schemas.disks import DiskIn
from panel.services import disks, instances
from panel.web.forms import Form
from panel.web.htmx import build_action_response, render
from panel.web.translation import gettext as _

bp = Blueprint("admin_instance_disks", __name__, url_prefix="/admin/instances/<instance_id>/disks")
WRITE_PERMISSION = "admin:instances:write"


@bp.post("/add")
@require_page_permission(WRITE_PERMISSION)
def add(instance_id):
    instance, form = instances.get(instance_id), Form(DiskIn)
    if form.submit(lambda **values: disks.add(instance, actor=get_current_actor(), **values)):
        return build_action_response(_("New disk requested."), tab_url(instance, "storage"))
    return storage_page(instance_id, form, add_disk_form=form)


@bp.post("/grow")
@require_page_permission(WRITE_PERMISSION)
def grow(instance_id):
    instance, form = instances.get(instance_id), Form(DiskGrowthForm)
    if form.submit(
        lambda disk_id, new_size: disks.resize(disks.get(instance, disk_id), size=new_size, actor=get_current_actor())
    ):
        return build_action_response(
            _("Resize requested.") if form.result else _("The disk already has this size."),
            tab_url(instance, "storage"),
        )
    return storage_page(instance_id, form, grow_form=form)


def storage_page(instance_id, form, **filled):
    context = build_context(instance_id, "storage", **filled)
    return render("admin/instances/show.html", "room", status=form.status, **context)
