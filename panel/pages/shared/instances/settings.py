"""The name, settings and project of an instance."""

from flask import request

from panel.auth.browser_session import get_current_actor
from panel.core.errors import Invalid
from panel.pages.shared.area import get_endpoint_prefix, get_instance, route, tab_url
from panel.pages.shared.instances.show import INSTANCE_TEMPLATES, build_context
from panel.schemas.instances import InstanceSettings, Rename
from panel.services import instances
from panel.web.forms import Form
from panel.web.htmx import (
    build_action_response,
    flash_message,
    is_partial,
    redirect_to,
    render,
    render_out_of_band,
)
from panel.web.translation import gettext as _


@route("POST", "/<instance_id>/rename", can="instances.manage")
def rename(instance_id):
    instance = get_instance(instance_id)
    form = Form(Rename)
    if not form.submit(lambda display_name: instances.update(instance, display_name=display_name)):
        raise Invalid(form.errors.get("display_name") or form.errors[""])
    answer = build_action_response(_("Name saved."), tab_url(instance, "overview"))
    if is_partial():  # the parts of the page outside the one that reloads
        answer.data += render_out_of_band(".breadcrumb-item.active span", instance.display_name, "innerHTML").encode()
        answer.data += render_out_of_band("title", f"{instance.display_name} · Panel", "innerHTML").encode()
    return answer


@route("POST", "/<instance_id>/settings", can="instances.manage")
def change(instance_id):
    instance = get_instance(instance_id)
    form = Form(InstanceSettings, initial=instance)
    if form.submit(lambda **data: instances.update(instance, actor=get_current_actor(), **data)):
        flash_message(_("Settings saved."))
        return redirect_to(tab_url(instance, "media" if request.args.get("tab") == "media" else "settings"))
    tab = build_context(instance_id, "settings", form=form)
    return render(INSTANCE_TEMPLATES[get_endpoint_prefix()], "settings", status=form.status, **tab)
