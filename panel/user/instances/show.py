"""One instance: its header, which is on every tab, and the tabs."""

from flask import abort, url_for

from panel.auth.browser import may, page_can, refusal, viewer
from panel.console_pages import doors
from panel.db import session
from panel.errors import NotFound
from panel.forms import Form
from panel.htmx import from_htmx, go, render, say
from panel.paging import Page
from panel.schemas.instances import InstancePatch
from panel.services import events, instances, projects, tasks
from panel.user import once
from panel.user.activity import told
from panel.user.instances import bp
from panel.user.instances.controls import controls

TABS = ("overview", "network", "storage", "tasks", "activity", "settings")
LATEST = 5


def mine(instance_id):
    return instances.get(instance_id, viewer())


@bp.get("/<instance_id>", endpoint="show", defaults={"tab": "overview"})
@bp.get("/<instance_id>/<tab>", endpoint="tab")
@page_can("instances.view")
def show(instance_id, tab):
    if tab not in TABS:
        abort(404)
    try:
        found = shown(instance_id, tab)
    except NotFound:
        return gone(instance_id)
    password = None if from_htmx() else once.take(instance_id)
    return render("user/instances/show.html", "live", password=password, **found)


def address(instance, tab):
    if tab == "overview":
        return url_for(".show", instance_id=instance.id)
    return url_for(".tab", instance_id=instance.id, tab=tab)


def gone(instance_id):
    """A page that was open while its instance was destroyed goes back to the list."""
    ended = session.scalars(tasks.listing(viewer(), resource_id=instance_id).limit(1)).first()
    if not from_htmx() or ended is None or (ended.kind, ended.status) != ("instance_destroy", "completed"):
        raise NotFound("No such instance.")
    say("The instance is destroyed.")
    return go(url_for(".index"))


def shown(instance_id, tab, **more):
    """What the template reads, for the tab that is asked for."""
    instance = mine(instance_id)
    latest = session.scalars(tasks.listing(viewer(), resource_id=instance.id).limit(LATEST)).all()
    found = {
        "instance": instance,
        "tab": tab,
        "tabbed": [(word.capitalize(), address(instance, word), word == tab) for word in TABS],
        "controls": list(controls(instance)),
        "doors": doors(instance, refusal("instances.console")),
        "latest": latest,
        "running": next((task for task in latest if task.open), None),
        "failed": next((task for task in latest[:1] if task.status == "failed"), None),
        "may_deploy": instances.refusal(instance, "deploy") is None,
        "no_destroy": instances.WORDS.get(instances.refusal(instance, "destroy")),
        "stale": instance.deployed and instance.hypervisor.status != "up",
        "there": {instance.id: instance.display_name},
    }
    if tab == "tasks":
        found["page"] = Page(tasks.listing(viewer(), resource_id=instance.id))
    if tab == "activity":
        found["page"] = Page(events.listing(viewer(), resource_id=instance.id))
        found["lines"] = told(found["page"].rows)
    if tab == "overview":
        found["lines"] = told(session.scalars(events.listing(viewer(), resource_id=instance.id).limit(LATEST)).all())
    if tab == "settings":
        found["form"] = Form(InstancePatch, known=instance)
        found["projects"] = session.scalars(projects.listing(viewer())).all() if may("projects.view") else []
    return found | more
