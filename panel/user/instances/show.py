"""One instance: its header, which is on every tab, and the tabs."""

from flask import abort, request, url_for

from panel import charts
from panel.auth.browser import may, page_can, refusal, viewer
from panel.console_pages import doors
from panel.db import session
from panel.errors import NotFound
from panel.forms import Form
from panel.htmx import from_htmx, go, render, say
from panel.paging import Page
from panel.schemas.guests import PushKeysIn
from panel.schemas.instances import InstancePatch
from panel.schemas.words import KEYMAPS
from panel.services import disks, events, instances, metrics, projects, ssh_keys, tasks
from panel.user import once
from panel.user.activity import told
from panel.user.instances import bp, kept, media, network
from panel.user.instances.controls import controls

TABS = ("overview", "metrics", "network", "storage", "media", "snapshots", "tasks", "activity", "settings")
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


@bp.get("/<instance_id>/media/now")
@page_can("instances.view")
def media_now(instance_id):
    """The tab alone: what people fill in there is not swapped every few seconds."""
    return render("user/instances/show.html", "media", password=None, **shown(instance_id, "media"))


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
        "no_reinstall": instances.WORDS.get(instances.refusal(instance, "reinstall")),
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
        found["guest"] = instances.report(instance)
        found["lines"] = told(session.scalars(events.listing(viewer(), resource_id=instance.id).limit(LATEST)).all())
    if tab == "storage":
        found["no_disks"] = instances.WORDS.get(disks.why_not(instance))
    if tab == "snapshots":
        found |= kept.shown(instance)
    if tab == "network":
        found |= network.shown(instance)
    if tab == "metrics":
        asked = charts.wanted(request.args.get("range"))
        found |= {"charts": charts, "series": metrics.series(instance, asked)}
    if tab == "media":
        found |= media.context(instance)
    if tab == "settings":
        found["form"] = Form(InstancePatch, known=instance)
        found["pushing"] = Form(PushKeysIn)
        found["keys"] = [(key.id, key.name) for key in session.scalars(ssh_keys.listing(viewer()))]
        found["no_guest"] = instances.WORDS.get(instances.unreachable(instance))
        found |= {
            "no_tpm": instances.no_tpm(instance),
            "keymaps": [(word, word) for word in KEYMAPS],
            "boots": boots(instance),
        }
        found["projects"] = session.scalars(projects.listing(viewer())).all() if may("projects.view") else []
    return found | more
