"""Making an instance, on one page: the row and its first deploy in one transaction."""

from functools import partial

from flask import request, url_for
from marshmallow import ValidationError

from panel.auth.browser_session import actor, current_access, require_page_permission
from panel.core.db import session
from panel.pages.customer.instances import bp
from panel.pages.shared.instances.create_form import as_curl, form_choices, pick_or_first
from panel.pages.shared.instances.deploy import NewKeyForm, start_deploy
from panel.schemas.base import Hostname
from panel.schemas.instances import DeployIn
from panel.schemas.resource_packs import PackedInstanceIn
from panel.services import instances, resource_packs
from panel.services.instances import self_provisioning
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render


@bp.get("/new")
@require_page_permission("instances.create")
def new():
    form = Form(PackedInstanceIn, DeployIn, NewKeyForm, initial=dict(request.args))
    return create_page(form)


@bp.post("/new")
@require_page_permission("instances.create")
def create():
    """Without JavaScript a button of the page asks for the choices of another location: nothing is made then."""
    form = Form(PackedInstanceIn, DeployIn, NewKeyForm)
    if "look" in request.form:
        form.sent = request.form
        return create_page(form, "form")
    if form.submit(lambda **data: create_instance(form_choices(form)["suggested"], **data)):
        instance, password = form.result
        if password:
            flash_secrets.store(instance.id, password)
        flash_message(f"{instance.display_name} is being created.", "info")
        return redirect_to(url_for("instances.show", instance_id=instance.id))
    return create_page(form, "form")


def create_page(form, block=None):
    found = form_choices(form)
    found |= pack_choices(form, found["location"], found["plan"])
    return render("user/instances/new.html", block, status=form.status, form=form, code=as_curl(form, found), **found)


def pack_choices(form, location, plan):
    """The account's resource packs, why each cannot give the plan now, and the one that is chosen: unless somebody says
    otherwise the first that can, because then nothing is paid for the instance itself."""
    own = resource_packs.with_usage(session.scalars(resource_packs.listing(current_access())).all())
    short = {pack: resource_packs.pack_error(pack, location.id, plan) for pack in own} if location and plan else {}
    by_plan = form.has("pack_id") and not form.value("pack_id")
    chosen = None if by_plan else pick_or_first(own, form.value("pack_id"), lambda pack: not short.get(pack))
    return {"packs": [(pack, short.get(pack) and short[pack][1]) for pack in own], "pack": chosen}


def create_instance(suggested, *, location_id, plan_id, pack_id=None, display_name=None, hostname=None, **wanted):
    """The instance and the password that was made up for it, if any."""
    label = display_name or suggested
    create = partial(self_provisioning.create_from_pack, pack_id=pack_id) if pack_id else instances.create
    instance = create(
        current_access(),
        location_id=location_id,
        plan_id=plan_id,
        display_name=label,
        hostname=hostname or valid_hostname(label),
        actor=actor(),
    )
    return instance, start_deploy(instance, **wanted)


def valid_hostname(name):
    """The name, if a guest could have it as its host name."""
    try:
        return Hostname().deserialize(name) if name else None
    except ValidationError:
        return None
