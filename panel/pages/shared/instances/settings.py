"""The name of an instance, its settings and what it is to be called."""

from flask import request

from panel.auth.browser_session import actor
from panel.core.errors import Invalid
from panel.pages.shared.area import area, at, found, page
from panel.pages.shared.instances.show import TEMPLATES, shown
from panel.schemas.instances import InstanceSettings, Rename
from panel.services import instances
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say


@page("POST", "/<instance_id>/rename", can="instances.manage")
def rename(instance_id):
    instance = found(instance_id)
    form = Form(Rename)
    if not form.submit(lambda display_name: instances.update(instance, display_name=display_name)):
        raise Invalid(form.errors.get("display_name") or form.errors[""])
    return did("The name is changed.", at(instance, "overview"))


@page("POST", "/<instance_id>/settings", can="instances.manage")
def change(instance_id):
    instance = found(instance_id)
    form = Form(InstanceSettings, known=instance)
    if form.submit(lambda **data: instances.update(instance, actor=actor(), **data)):
        say("The settings are changed.")
        return go(at(instance, "media" if request.args.get("tab") == "media" else "settings"))
    tab = shown(instance_id, "settings", form=form)
    return render(TEMPLATES[area()], "settings", status=form.status, **tab)
