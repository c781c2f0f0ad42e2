"""The name of an instance, its settings and what it is to be called."""

from flask import request

from panel.auth.browser import actor
from panel.errors import Invalid
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.instance_pages.show import TEMPLATES, shown
from panel.instance_pages.sides import area, at, found, page
from panel.schemas.instances import InstanceSettings, Rename
from panel.services import instances


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
