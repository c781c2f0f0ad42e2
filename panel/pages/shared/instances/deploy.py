"""Deploying an instance that has no operating system yet, or whose deploy failed."""

from panel.auth.browser_session import actor
from panel.core.db import session
from panel.core.errors import NotFound
from panel.pages.shared.area import (
    ensure_permission,
    get_instance,
    is_operator_area,
    owner_of,
    route,
    scope_account,
    tab_url,
)
from panel.pages.shared.instances.create_form import form_choices
from panel.schemas.base import In, Name
from panel.schemas.instances import DeployIn
from panel.schemas.ssh_keys import PublicKeyLine
from panel.services import instances, ssh_keys
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render


class NewKeyForm(In):
    """A key that is added on the way."""

    key_name = Name(least=0, most=32)
    public_key = PublicKeyLine(most=16384)


@route("GET", "/<instance_id>/deploy", can="instances.manage")
def again(instance_id):
    instance = get_instance(instance_id)
    return deploy_page(instance, Form(DeployIn, NewKeyForm, initial=last_deploy_values(instance)))


def last_deploy_values(instance):
    """What the last deploy was asked to do. Its password is not kept, and its configuration is for its owner alone."""
    last = instances.find_last_deploy(instance)
    if last is None:
        return {"hostname": instance.hostname}
    lines = last.arguments["ssh_keys"]
    keys = [key.id for key in session.scalars(ssh_keys.listing(owner_of(instance))) if key.public_key in lines]
    secret = {"cloudcfg": None} if is_operator_area() else {}
    return {**last.arguments, **secret, "ssh_keys": keys}


@route("POST", "/<instance_id>/deploy", can="instances.manage")
def deploy(instance_id):
    instance = get_instance(instance_id)
    form = Form(DeployIn, NewKeyForm)
    if form.submit(lambda **data: start_deploy(instance, **data)):
        if form.result:
            flash_secrets.store(instance.id, form.result)
        flash_message("Deployment requested.", "info")
        return redirect_to(tab_url(instance, "overview"))
    return deploy_page(get_instance(instance_id), form, "form")


def deploy_page(instance, form, block=None):
    if instance.deployed:
        raise NotFound("This instance has an operating system already.")
    offered = form_choices(form, instance)
    return render("user/instances/deploy.html", block, status=form.status, form=form, instance=instance, **offered)


def start_deploy(instance, **wanted):
    """Begins the deploy, with a key that is stored on the way; returns the password that was made up, if any."""
    wanted = with_new_key(instance, **wanted)
    return instances.deploy(instance, actor=actor(), account=scope_account(), **wanted)[1]


def with_new_key(instance, *, key_name=None, public_key=None, key_ids=(), **wanted):
    """What is wanted, with the new key stored among its owner's and added to the keys that were ticked."""
    if public_key:
        ensure_permission("ssh_keys.manage")
        made = ssh_keys.create(owner_of(instance), name=key_name or "new key", public_key=public_key)
        key_ids = [*key_ids, made.id]
    return {**wanted, "key_ids": key_ids}
