"""Creating an instance: its row and first deploy in one transaction."""

from functools import partial

from flask import request, url_for
from marshmallow import ValidationError

from panel.auth.browser_session import get_current_access, get_current_actor, require_page_permission
from panel.core.db import session
from panel.pages.customer.instances import bp
from panel.pages.shared.instances.create_form import format_curl_commands, list_form_choices, pick_or_first
from panel.pages.shared.instances.deploy import NewKeyForm, start_deploy
from panel.schemas.base import Hostname
from panel.schemas.instances import DeployIn
from panel.schemas.resource_packs import PackedInstanceIn
from panel.services import instances, resource_packs
from panel.services.instances import self_provisioning
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _


@bp.get("/new")
@require_page_permission("instances.create")
def new():
    form = Form(PackedInstanceIn, DeployIn, NewKeyForm, initial=dict(request.args))
    return create_page(form)


@bp.post("/new")
@require_page_permission("instances.create")
def create():
    """Create an instance. Without JavaScript, the button `preview` only renders the choices of another location."""
    form = Form(PackedInstanceIn, DeployIn, NewKeyForm)
    if "preview" in request.form:
        form.sent = request.form
        return create_page(form, "form")
    if form.submit(lambda **data: create_instance(list_form_choices(form)["suggested"], **data)):
        instance, password = form.result
        if password:
            flash_secrets.store(instance.id, password)
        flash_message(_("Creation of %(display_name)s requested.", display_name=instance.display_name), "info")
        return redirect_to(url_for("instances.show", instance_id=instance.id))
    return create_page(form, "form")


def create_page(form, block=None):
    choices = list_form_choices(form)
    choices |= list_pack_choices(form, choices["location"], choices["plan"])
    return render(
        "customer/instances/new.html",
        block,
        status=form.status,
        form=form,
        code=format_curl_commands(form, choices),
        **choices,
    )


def list_pack_choices(form, location, plan):
    """Return the account's resource packs, each with the reason why it cannot provide the plan or None, and the chosen
    one. The default is the first that can, because an instance from a pack costs nothing by itself."""
    packs = session.scalars(resource_packs.with_usage(resource_packs.listing(get_current_access()))).all()
    short = {pack: resource_packs.pack_error(pack, location.id, plan) for pack in packs} if location and plan else {}
    by_plan = form.has("pack_id") and not form.get_value("pack_id")
    selected_pack = (
        None if by_plan else pick_or_first(packs, form.get_value("pack_id"), lambda pack: not short.get(pack))
    )
    return {"packs": [(pack, short.get(pack) and short[pack][1]) for pack in packs], "pack": selected_pack}


def create_instance(
    suggested, *, location_id, plan_id, pack_id=None, display_name=None, hostname=None, **deploy_values
):
    """Create and deploy. Return the instance, and the generated password or None."""
    label = display_name or suggested
    create = partial(self_provisioning.create_from_pack, pack_id=pack_id) if pack_id else instances.create
    instance = create(
        get_current_access(),
        location_id=location_id,
        plan_id=plan_id,
        display_name=label,
        hostname=hostname or to_hostname(label),
        actor=get_current_actor(),
    )
    return instance, start_deploy(instance, **deploy_values)


def to_hostname(name):
    """Return the name if it is a valid host name, else None."""
    try:
        return Hostname().deserialize(name) if name else None
    except ValidationError:
        return None
