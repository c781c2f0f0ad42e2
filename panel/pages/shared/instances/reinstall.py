"""Reinstalling an instance, confirmed by typing its name."""

from panel.auth.browser_session import get_current_actor
from panel.core.errors import Invalid
from panel.pages.shared.area import get_instance, route, scope_account, tab_url
from panel.pages.shared.instances.create_form import list_form_choices
from panel.pages.shared.instances.deploy import NewKeyForm, get_last_deploy_values, with_new_key
from panel.schemas.base import In, Text
from panel.schemas.instances import ReinstallIn
from panel.services import instances
from panel.services.state_machine import ensure_no_error
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _


class ConfirmNameForm(In):
    typed = Text(required=True)


@route("GET", "/<instance_id>/reinstall", can="instances.manage")
def show_reinstall_form(instance_id):
    instance = get_instance(instance_id)
    ensure_no_error(instances.action_error(instance, "reinstall"))
    initial = {**get_last_deploy_values(instance), "image_id": instance.image_id, "hostname": instance.hostname}
    return form_page(instance, Form(ReinstallIn, NewKeyForm, ConfirmNameForm, initial=initial))


@route("POST", "/<instance_id>/reinstall", can="instances.manage")
def reinstall(instance_id):
    instance = get_instance(instance_id)
    form = Form(ReinstallIn, NewKeyForm, ConfirmNameForm)
    if form.submit(lambda **data: start_reinstall(instance, **data)):
        if form.result:
            flash_secrets.store(instance.id, form.result)
        flash_message(_("Reinstall requested."), "info")
        return redirect_to(tab_url(instance, "overview"))
    return form_page(get_instance(instance_id), form, "form")


def form_page(instance, form, block=None):
    choices = list_form_choices(form, instance)
    return render(
        "customer/instances/reinstall.html", block, status=form.status, form=form, instance=instance, **choices
    )


def start_reinstall(instance, *, typed, **values):
    """Store a new key, if given, and start the reinstall. Return the generated password or None."""
    if typed.strip() != instance.display_name:
        raise Invalid(_("Nothing was changed."), typed=_("The name does not match."))
    values = with_new_key(instance, **values)
    return instances.reinstall(instance, actor=get_current_actor(), account=scope_account(), **values)[1]
