"""One instance: its header, which is on every tab, and the tabs."""

from flask import abort, request, url_for

from panel.auth.browser_session import viewer
from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Rescue
from panel.pages.shared.area import area, asker, at, found, may, operating, page, refusal, whose
from panel.pages.shared.console_views import doors
from panel.pages.shared.instances import docker_tab, media, network_tab, operator_tabs, snapshots_tab
from panel.pages.shared.instances.power_buttons import controls
from panel.schemas.constants import KEYMAPS
from panel.schemas.guests import PushKeysIn
from panel.schemas.instances import InstanceSettings
from panel.services import disks, events, instances, metrics, projects, ssh_keys, tasks, usage, watched_instances
from panel.web import charts, flash_secrets
from panel.web.activity_view import told
from panel.web.forms import Form
from panel.web.htmx import from_htmx, go, render, say
from panel.web.paging import Page

TEMPLATES = {"": "user/instances/show.html", "admin_": "admin/instances/show.html"}
"""The page of each side; what differs is around the tabs."""
TABS = ("overview", "metrics", "network", "storage", "media", "snapshots", "apps", "tasks", "activity", "settings")
LATEST = 5
BOOTS = (
    ("disk", "Disk"),
    ("disk,cdrom", "Disk, then CD"),
    ("cdrom,disk", "CD, then disk"),
    ("disk,network", "Disk, then network"),
    ("network,disk", "Network, then disk"),
    ("cdrom,disk,network", "CD, disk, network"),
)


def boots(instance):
    """The orders to choose from; one that a program set is among them."""
    return BOOTS if instance.boot in dict(BOOTS) else ((instance.boot, instance.boot), *BOOTS)


@page("GET", "/<instance_id>", can="instances.view", endpoint="show", defaults={"tab": "overview"})
@page("GET", "/<instance_id>/<tab>", can="instances.view", endpoint="tab")
def show(instance_id, tab):
    if tab not in TABS:
        abort(404)
    try:
        context = shown(instance_id, tab)
    except NotFound:
        return gone(instance_id)
    password = None if from_htmx() else flash_secrets.take(instance_id)
    return render(TEMPLATES[area()], "live", password=password, **context)


@page("GET", "/<instance_id>/media/now", can="instances.view")
def media_now(instance_id):
    """The tab alone: what people fill in there is not swapped every few seconds."""
    return render(TEMPLATES[area()], "media", password=None, **shown(instance_id, "media"))


def gone(instance_id):
    """A page that was open while its instance was destroyed goes back to the list."""
    ended = session.scalars(tasks.listing(asker(), resource_id=instance_id).limit(1)).first()
    if not from_htmx() or ended is None or (ended.kind, ended.status) != ("instance_destroy", "completed"):
        raise NotFound("No such instance.")
    say("The instance is destroyed.")
    return go(url_for(f"{area()}instances.index"))


def shown(instance_id, tab, **more):
    """What the template reads, for the tab that is asked for."""
    instance = found(instance_id)
    watched_instances.mark(instance)
    latest = session.scalars(tasks.listing(asker(), resource_id=instance.id).limit(LATEST)).all()
    context = {
        "instance": instance,
        "tab": tab,
        "tabbed": [(word.capitalize(), at(instance, word), word == tab) for word in TABS],
        "controls": list(controls(instance)),
        "doors": doors(instance, refusal("instances.console"), operating()),
        "latest": latest,
        "running": next((task for task in latest if task.open), None),
        "failed": next((task for task in latest[:1] if task.status == "failed"), None),
        "may_deploy": instances.refusal(instance, "deploy") is None,
        "no_reinstall": instances.WORDS.get(instances.refusal(instance, "reinstall")),
        "no_destroy": instances.WORDS.get(instances.refusal(instance, "destroy", by_operator=operating())),
        "in_rescue": session.get(Rescue, instance.id) is not None,
        "stale": instance.deployed and instance.hypervisor.status != "up",
        "there": {instance.id: instance.display_name},
    }
    if tab == "tasks":
        context["page"] = Page(tasks.listing(asker(), resource_id=instance.id))
    if tab == "activity":
        context["page"] = Page(events.listing(asker(), resource_id=instance.id))
        context["lines"] = told(context["page"].rows, linked=not operating())
    if tab == "overview":
        context["guest"] = instances.report(instance)
        lately = session.scalars(events.listing(asker(), resource_id=instance.id).limit(LATEST)).all()
        context["lines"] = told(lately, linked=not operating())
    if tab == "storage":
        context["volumes_offered"] = not operating() and may("volumes.view") and usage.is_open(viewer())
        context["no_disks"] = instances.WORDS.get(disks.why_not(instance, by_operator=operating()))
    if tab == "snapshots":
        context |= snapshots_tab.shown(instance)
    if tab == "apps":
        context |= docker_tab.shown(instance)
    if tab == "network":
        context |= network_tab.shown(instance)
    if tab == "metrics":
        asked = charts.wanted(request.args.get("range"))
        context |= {"charts": charts, "series": metrics.series(instance, asked)}
    if tab == "media":
        context |= media.context(instance) | {"boots": boots(instance)}
    if tab == "settings":
        context |= settings(instance)
    if operating():
        context |= operator_tabs.shown(instance, tab)
    return context | more


def settings(instance):
    """What the tab with the settings shows. An operator does not move instances between a customer's projects."""
    keys = session.scalars(ssh_keys.listing(whose(instance))).all()
    groups = projects.listing(viewer()) if may("projects.view") and not operating() else None
    return {
        "form": Form(InstanceSettings, known=instance),
        "pushing": Form(PushKeysIn),
        "keys": [(key.id, key.name) for key in keys],
        "no_guest": instances.WORDS.get(instances.unreachable(instance, by_operator=operating())),
        "no_tpm": instances.no_tpm(instance),
        "no_secure_boot": instances.no_secure_boot(instance),
        "keymaps": [(word, word) for word in KEYMAPS],
        "projects": session.scalars(groups).all() if groups is not None else [],
    }
