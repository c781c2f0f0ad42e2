"""Resetting root's password and adding SSH keys in a running guest."""

from panel.auth.browser_session import get_current_actor
from panel.pages.shared.area import get_endpoint_prefix, get_instance, is_operator_area, route, scope_account, tab_url
from panel.pages.shared.instances.show import INSTANCE_TEMPLATES, build_context
from panel.schemas.guests import PushKeysIn
from panel.services import instances
from panel.web import flash_secrets
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _
from panel.workflows import reachability


@route("POST", "/<instance_id>/reset-password", can="instances.manage")
def reset_password(instance_id):
    instance = get_instance(instance_id)
    checked_at = reachability.check_guest(instance, by_operator=is_operator_area())
    password = instances.reset_password(
        instance, actor=get_current_actor(), since=checked_at, by_operator=is_operator_area()
    )[1]
    flash_secrets.store(instance.id, password)
    flash_message(_("New root password requested."), "info")
    return redirect_to(tab_url(instance, "overview"))


@route("POST", "/<instance_id>/ssh-keys", can="instances.manage")
@audit_label("Add SSH keys")
def push_keys(instance_id):
    instance = get_instance(instance_id)
    form = Form(PushKeysIn)

    def push(**data):
        reachability.check_guest(instance, by_operator=is_operator_area())
        return instances.push_keys(instance, account=scope_account(), actor=get_current_actor(), **data)

    if form.submit(push):
        flash_message(_("Installation of the keys requested."), "info")
        return redirect_to(tab_url(instance, "overview"))
    tab = build_context(instance_id, "settings", push_keys_form=form)
    return render(INSTANCE_TEMPLATES[get_endpoint_prefix()], "settings", status=form.status, **tab)
