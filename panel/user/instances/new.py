"""Making an instance, on one page: the row and its first deploy in one transaction."""

from flask import request, url_for
from marshmallow import ValidationError

from panel import once
from panel.auth.browser import actor, page_can, viewer
from panel.forms import Form
from panel.htmx import go, render, say
from panel.instance_pages.choices import as_code, choices
from panel.instance_pages.deploy import NewKey, install
from panel.schemas.base import Hostname
from panel.schemas.instances import DeployIn, InstanceIn
from panel.services import instances
from panel.user.instances import bp


@bp.get("/new")
@page_can("instances.create")
def new():
    form = Form(InstanceIn, DeployIn, NewKey, known=dict(request.args))
    return page(form)


@bp.post("/new")
@page_can("instances.create")
def create():
    """Without JavaScript a button of the page asks for the choices of another location: nothing is made then."""
    form = Form(InstanceIn, DeployIn, NewKey)
    if "look" in request.form:
        form.sent = request.form
        return page(form, "form")
    if form.submit(lambda **data: make(choices(form)["suggested"], **data)):
        instance, password = form.result
        if password:
            once.keep(instance.id, password)
        say(f"{instance.display_name} is being created.", "info")
        return go(url_for("instances.show", instance_id=instance.id))
    return page(form, "form")


def page(form, block=None):
    found = choices(form)
    return render("user/instances/new.html", block, status=form.status, form=form, code=as_code(form, found), **found)


def make(suggested, *, location_id, plan_id, display_name=None, hostname=None, **wanted):
    """The instance and the password that was made up for it, if any."""
    label = display_name or suggested
    instance = instances.create(
        viewer(),
        location_id=location_id,
        plan_id=plan_id,
        display_name=label,
        hostname=hostname or usable(label),
        actor=actor(),
    )
    return instance, install(instance, **wanted)


def usable(name):
    """The name, if a guest could have it as its host name."""
    try:
        return Hostname().deserialize(name) if name else None
    except ValidationError:
        return None
