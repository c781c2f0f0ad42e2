"""Deploying an instance that has no operating system yet, or whose deploy failed."""

from panel.auth.browser_session import actor
from panel.core.db import session
from panel.core.errors import NotFound
from panel.pages.shared.area import asker, at, found, operating, page, require, whose
from panel.pages.shared.instances.create_form import choices
from panel.schemas.base import In, Name
from panel.schemas.instances import DeployIn
from panel.schemas.ssh_keys import Line
from panel.services import instances, ssh_keys
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import go, render, say


class NewKey(In):
    """A key that is added on the way."""

    key_name = Name(least=0, most=32)
    public_key = Line(most=16384)


@page("GET", "/<instance_id>/deploy", can="instances.manage")
def again(instance_id):
    instance = found(instance_id)
    return deploy_page(instance, Form(DeployIn, NewKey, known=tried(instance)))


def tried(instance):
    """What the last deploy was asked to do. Its password is not kept, and its configuration is for its owner alone."""
    last = instances.last_deploy(instance)
    if last is None:
        return {"hostname": instance.hostname}
    lines = last.arguments["ssh_keys"]
    keys = [key.id for key in session.scalars(ssh_keys.listing(whose(instance))) if key.public_key in lines]
    secret = {"cloudcfg": None} if operating() else {}
    return {**last.arguments, **secret, "ssh_keys": keys}


@page("POST", "/<instance_id>/deploy", can="instances.manage")
def deploy(instance_id):
    instance = found(instance_id)
    form = Form(DeployIn, NewKey)
    if form.submit(lambda **data: install(instance, **data)):
        if form.result:
            flash_secrets.keep(instance.id, form.result)
        say("Deployment requested.", "info")
        return go(at(instance, "overview"))
    return deploy_page(found(instance_id), form, "form")


def deploy_page(instance, form, block=None):
    if instance.deployed:
        raise NotFound("This instance has an operating system already.")
    offered = choices(form, instance)
    return render("user/instances/deploy.html", block, status=form.status, form=form, instance=instance, **offered)


def install(instance, **wanted):
    """Begins the deploy, with a key that is stored on the way; returns the password that was made up, if any."""
    wanted = chosen_keys(instance, **wanted)
    return instances.deploy(instance, actor=actor(), account=asker(), **wanted)[1]


def chosen_keys(instance, *, key_name=None, public_key=None, key_ids=(), **wanted):
    """What is wanted, with the new key stored among its owner's and added to the keys that were ticked."""
    if public_key:
        require("ssh_keys.manage")
        made = ssh_keys.create(whose(instance), name=key_name or "new key", public_key=public_key)
        key_ids = [*key_ids, made.id]
    return {**wanted, "key_ids": key_ids}
