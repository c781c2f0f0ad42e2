"""Root's password and keys of a running guest."""

from panel import once, reachability
from panel.auth.browser import actor
from panel.forms import Form
from panel.htmx import go, render, say
from panel.instance_pages.show import TEMPLATES, shown
from panel.instance_pages.sides import area, asker, at, found, operating, page
from panel.schemas.guests import PushKeysIn
from panel.services import instances


@page("POST", "/<instance_id>/reset-password", can="instances.manage")
def reset_password(instance_id):
    instance = found(instance_id)
    asked = reachability.check_guest(instance, by_operator=operating())
    _, password = instances.reset_password(instance, actor=actor(), since=asked, by_operator=operating())
    once.keep(instance.id, password)
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
