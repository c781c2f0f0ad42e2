"""Deploying an instance without an operating system, or after a failed deploy."""

from panel.auth.browser_session import get_current_actor
from panel.core.db import session
from panel.core.errors import NotFound
from panel.pages.shared.area import (
    ensure_permission,
    get_instance,
    get_owner,
    is_operator_area,
    route,
    scope_account,
    tab_url,
)
from panel.pages.shared.instances.create_form import list_form_choices
from panel.schemas.base import In, Name
from panel.schemas.instances import DeployIn
from panel.schemas.ssh_keys import PublicKeyLine
from panel.services import instances, ssh_keys
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _


class NewKeyForm(In):
    """A new SSH key, which is stored with the deploy."""

    key_name = Name(minimum=0, maximum=32)
    public_key = PublicKeyLine(maximum=16384)


@route("GET", "/<instance_id>/deploy", can="instances.manage")
def show_deploy_form(instance_id):
    instance = get_instance(instance_id)
    return deploy_page(instance, Form(DeployIn, NewKeyForm, initial=get_last_deploy_values(instance)))


def get_last_deploy_values(instance):
    """Return the values of the last deploy. Its password is not stored, and only the owner sees its configuration."""
    last = instances.find_last_deploy(instance)
    if last is None:
        return {"hostname": instance.hostname}
    lines = last.arguments["ssh_keys"]
    keys = [
        key.id for key in session.scalars(ssh_keys.listing(get_owner(instance))) if key.authorized_keys_line in lines
    ]
    secret = {"cloudcfg": None} if is_operator_area() else {}
    return {**last.arguments, **secret, "ssh_keys": keys}


@route("POST", "/<instance_id>/deploy", can="instances.manage")
def deploy(instance_id):
    instance = get_instance(instance_id)
    form = Form(DeployIn, NewKeyForm)
    if form.submit(lambda **data: start_deploy(instance, **data)):
        if form.result:
            flash_secrets.store(instance.id, form.result)
        flash_message(_("Deployment requested."), "info")
        return redirect_to(tab_url(instance, "overview"))
    return deploy_page(get_instance(instance_id), form, "form")


def deploy_page(instance, form, block=None):
    if instance.deployed:
        raise NotFound(_("This instance already has an operating system."))
    choices = list_form_choices(form, instance)
    return render("customer/instances/deploy.html", block, status=form.status, form=form, instance=instance, **choices)


def start_deploy(instance, **values):
    """Store a new key, if given, and start the deploy. Return the generated password or None."""
    values = with_new_key(instance, **values)
    return instances.deploy(instance, actor=get_current_actor(), account=scope_account(), **values)[1]


def with_new_key(instance, *, key_name=None, public_key=None, key_ids=(), **values):
    """Store a new key, if given, for the instance's owner. Return the values with its id in `key_ids`."""
    if public_key:
        ensure_permission("ssh_keys.manage")
        key = ssh_keys.create(get_owner(instance), name=key_name or "new key", public_key=public_key)
        key_ids = [*key_ids, key.id]
    return {**values, "key_ids": key_ids}
