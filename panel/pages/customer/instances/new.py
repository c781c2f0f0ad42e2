"""Making an instance, on one page: the row and its first deploy in one transaction."""

from functools import partial

from flask import request, url_for
from marshmallow import ValidationError

from panel.auth.browser_session import actor, page_can, viewer
from panel.core.db import session
from panel.pages.customer.instances import bp
from panel.pages.shared.instances.create_form import as_code, choices, picked
from panel.pages.shared.instances.deploy import NewKey, install
from panel.schemas.base import Hostname
from panel.schemas.instances import DeployIn
from panel.schemas.resource_packs import PackedInstanceIn
from panel.services import instances, resource_packs
from panel.services.instances import self_provisioning
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import go, render, say


@bp.get("/new")
@page_can("instances.create")
def new():
    form = Form(PackedInstanceIn, DeployIn, NewKey, known=dict(request.args))
    return page(form)


@bp.post("/new")
@page_can("instances.create")
def create():
    """Without JavaScript a button of the page asks for the choices of another location: nothing is made then."""
    form = Form(PackedInstanceIn, DeployIn, NewKey)
    if "look" in request.form:
        form.sent = request.form
        return page(form, "form")
    if form.submit(lambda **data: make(choices(form)["suggested"], **data)):
        instance, password = form.result
        if password:
            flash_secrets.keep(instance.id, password)
        say(f"{instance.display_name} is being created.", "info")
        return go(url_for("instances.show", instance_id=instance.id))
    return page(form, "form")


def page(form, block=None):
    found = choices(form)
    found |= packs(form, found["location"], found["plan"])
    return render("user/instances/new.html", block, status=form.status, form=form, code=as_code(form, found), **found)


def packs(form, location, plan):
    """The account's resource packs, why each cannot give the plan now, and the one that is chosen: unless somebody says
    otherwise the first that can, because then nothing is paid for the instance itself."""
    own = resource_packs.weigh(session.scalars(resource_packs.listing(viewer())).all())
    short = {pack: resource_packs.shortage(pack, location.id, plan) for pack in own} if location and plan else {}
    by_plan = form.has("pack_id") and not form.value("pack_id")
    chosen = None if by_plan else picked(own, form.value("pack_id"), lambda pack: not short.get(pack))
    return {"packs": [(pack, short.get(pack) and short[pack][1]) for pack in own], "pack": chosen}


def make(suggested, *, location_id, plan_id, pack_id=None, display_name=None, hostname=None, **wanted):
    """The instance and the password that was made up for it, if any."""
    label = display_name or suggested
    create = partial(self_provisioning.create, pack_id=pack_id) if pack_id else instances.create
    instance = create(
        viewer(),
        location_id=location_id,
        plan_id=plan_id,
        display_name=label,
        hostname=hostname or usable(label),
        actor=actor(),
    )
    return instance, install(instance, **wanted)


def usable(name):
    """The name, if a guest could have it as its host name."""
    try:
        return Hostname().deserialize(name) if name else None
    except ValidationError:
        return None
