"""Root's password and keys of a running guest."""

from panel.auth.browser_session import actor
from panel.pages.shared.area import area, asker, at, found, operating, page
from panel.pages.shared.instances.show import TEMPLATES, shown
from panel.schemas.guests import PushKeysIn
from panel.services import instances
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import go, render, say
from panel.workflows import reachability


@page("POST", "/<instance_id>/reset-password", can="instances.manage")
def reset_password(instance_id):
    instance = found(instance_id)
    asked = reachability.check_guest(instance, by_operator=operating())
    _, password = instances.reset_password(instance, actor=actor(), since=asked, by_operator=operating())
    flash_secrets.keep(instance.id, password)
    say("New root password requested.", "info")
    return go(at(instance, "overview"))


@page("POST", "/<instance_id>/ssh-keys", can="instances.manage")
def push_keys(instance_id):
    instance = found(instance_id)
    form = Form(PushKeysIn)

    def push(**data):
        reachability.check_guest(instance, by_operator=operating())
        return instances.push_keys(instance, account=asker(), actor=actor(), **data)

    if form.submit(push):
        say("Installation of the keys requested.", "info")
        return go(at(instance, "overview"))
    tab = shown(instance_id, "settings", pushing=form)
    return render(TEMPLATES[area()], "settings", status=form.status, **tab)
