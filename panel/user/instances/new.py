"""Making an instance, on one page: the row and its first deploy in one transaction. And deploying again what failed."""

from flask import request, url_for
from marshmallow import ValidationError

from panel.auth.browser import actor, page_can, require, viewer
from panel.db import session
from panel.errors import NotFound
from panel.forms import Form
from panel.htmx import go, render, say
from panel.schemas.base import Hostname, In, Text
from panel.schemas.instances import DeployIn, InstanceIn
from panel.schemas.ssh_keys import Line
from panel.services import instances, ssh_keys
from panel.user import once
from panel.user.instances import bp
from panel.user.instances.choices import as_code, choices
from panel.user.instances.show import mine


class NewKey(In):
    """A key that is added on the way."""

    key_name = Text(most=32)
    public_key = Line(most=16384)


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


@bp.get("/<instance_id>/deploy")
@page_can("instances.manage")
def again(instance_id):
    instance = mine(instance_id)
    return deploy_page(instance, Form(DeployIn, NewKey, known=tried(instance)))


def tried(instance):
    """What the last deploy was asked to do. Its password is not kept."""
    last = instances.last_deploy(instance)
    if last is None:
        return {"hostname": instance.hostname}
    lines = last.arguments["ssh_keys"]
    keys = [key.id for key in session.scalars(ssh_keys.listing(viewer())) if key.public_key in lines]
    return {**last.arguments, "ssh_keys": keys}


@bp.post("/<instance_id>/deploy")
@page_can("instances.manage")
def deploy(instance_id):
    instance = mine(instance_id)
    form = Form(DeployIn, NewKey)
    if form.submit(lambda **data: install(instance, **data)):
        if form.result:
            once.keep(instance.id, form.result)
        say(f"{instance.display_name} is being deployed.", "info")
        return go(url_for("instances.show", instance_id=instance_id))
    return deploy_page(mine(instance_id), form, "form")


def deploy_page(instance, form, block=None):
    if instance.deployed:
        raise NotFound("This instance has an operating system already.")
    found = choices(form, instance)
    return render("user/instances/deploy.html", block, status=form.status, form=form, instance=instance, **found)


def install(instance, *, key_name=None, public_key=None, key_ids=(), **wanted):
    """Begins the deploy, with a key that is stored on the way; returns the password that was made up, if any."""
    if public_key:
        require("ssh_keys.manage")
        key_ids = [*key_ids, ssh_keys.create(viewer(), name=key_name or "new key", public_key=public_key).id]
    return instances.deploy(instance, actor=actor(), account=viewer(), key_ids=key_ids, **wanted)[1]
