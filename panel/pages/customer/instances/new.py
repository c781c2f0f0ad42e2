"""Creating instances: their rows and first deploys in one transaction."""

import json
from functools import partial

from flask import request, url_for
from marshmallow import ValidationError

from panel.auth.browser_session import (
    ensure_permission,
    get_current_access,
    get_current_actor,
    require_page_permission,
)
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Instance, Task
from panel.pages.customer.instances import bp, order_form
from panel.pages.customer.instances.code_examples import list_code_examples
from panel.pages.customer.instances.order_form import FirstBootForm, OrderForm, list_order_choices
from panel.pages.shared import followed_tasks
from panel.pages.shared.instances.create_form import ISO_PREFIX, list_form_choices, pick_or_first
from panel.pages.shared.instances.deploy import NewKeyForm, with_new_key
from panel.schemas.base import Hostname
from panel.schemas.resource_packs import PackedInstanceIn
from panel.services import catalog, instances, projects, resource_packs, security_groups, tasks
from panel.services.instances import quantity as quantities
from panel.services.instances import self_provisioning
from panel.services.instances.self_deploy import self_deploy
from panel.services.volumes import new_instances
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _

FORMS = PackedInstanceIn, FirstBootForm, NewKeyForm, OrderForm
PASSWORDS_SUBJECT = "created"
"""Under which the passwords of several new instances wait to be shown."""


@bp.get("/new")
@require_page_permission("instances.create")
def new():
    return create_page(Form(*FORMS, initial={"quantity": 1, **request.args}))


@bp.post("/new")
@require_page_permission("instances.create")
def create():
    """Create instances. Without JavaScript, the button `preview` only renders the choices of another location."""
    form = Form(*FORMS)
    if "preview" in request.form:
        form.sent = request.form
        return create_page(form, "form")
    if not form.submit(lambda **data: create_instances(list_form_choices(form)["suggested"], **data)):
        return create_page(form, "form")
    rows = form.result
    if len(rows) == 1:
        [(instance, _task, password)] = rows
        if password:
            flash_secrets.store(instance.id, password)
        flash_message(_("Creation of %(display_name)s requested.", display_name=instance.display_name), "info")
        return redirect_to(url_for("instances.show", instance_id=instance.id))
    passwords = {instance.id: password for instance, _task, password in rows if password}
    if passwords:
        flash_secrets.store(PASSWORDS_SUBJECT, json.dumps(passwords))
    return redirect_to(
        url_for(".created", ids=followed_tasks.encode_ids(task.id for _instance, task, _password in rows))
    )


@bp.get("/created")
@require_page_permission("instances.view")
def created():
    """Show the progress of instances that were created together, and once their passwords."""
    ids = followed_tasks.decode_ids(request.args.get("ids", ""))
    rows: list[Task] = list(session.scalars(tasks.select_by_ids(ids, get_current_access())))
    query = instances.listing(get_current_access()).where(Instance.id.in_(task.resource_id for task in rows))
    context = {
        "instances": sorted(session.scalars(query).unique(), key=lambda instance: instance.id),
        "passwords": json.loads(flash_secrets.pop(PASSWORDS_SUBJECT) or "{}"),
    }
    return render("customer/instances/created.html", **context, **followed_tasks.build_context(rows))


def create_page(form, block=None):
    choices = list_form_choices(form)
    choices |= list_pack_choices(form, choices["location"], choices["plan"])
    choices |= list_order_choices(form, choices)
    return render(
        "customer/instances/new.html",
        block,
        status=form.status,
        form=form,
        code=list_code_examples(form, choices),
        iso_prefix=ISO_PREFIX,
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


def create_instances(suggested, *, quantity, image_id, display_name=None, hostname=None, confirmed=False, **values):
    """Create and deploy so many instances, or none. Return each with its task and its generated password or None."""
    order_form.ensure_permissions(values)
    names = quantities.number_names(display_name or suggested, quantity)
    hostnames = quantities.number_hostnames(hostname, quantity) if hostname else [to_hostname(name) for name in names]
    place = {name: values.pop(name, None) for name in ("location_id", "plan_id", "pack_id")}
    order = {name: values.pop(name, None) for name in order_form.PERMISSIONS}
    if quantity > 1:
        ensure_hostnames(hostnames if hostname else [])
        quantities.ensure_room(
            get_current_access(), location_id=place["location_id"], plan_id=place["plan_id"], quantity=quantity
        )
    rows = create_rows(names, hostnames, place, order)
    groups = order_form.choose_groups(
        order["security_group_ids"] or [], order["presets"], is_confirmed=confirmed, actor=get_current_actor()
    )
    for group in groups:
        security_groups.attach(group, [row.id for row in rows], get_current_access(), actor=get_current_actor())
    if image_id.startswith(ISO_PREFIX):
        return [(row, boot_iso(row, image_id.removeprefix(ISO_PREFIX)), None) for row in rows]
    values = with_new_key(rows[0], image_id=image_id, **values)
    deploy = partial(instances.deploy, actor=get_current_actor(), account=get_current_access(), **values)
    return [(row, *deploy(row)) for row in rows]


def create_rows(names, hostnames, place, order):
    """Create the instances with project, tags and volumes. Return them."""
    access, actor = get_current_access(), get_current_actor()
    volume_ids, project_id = order["volume_ids"] or [], order["project_id"]
    order_form.ensure_volumes_fit_quantity(volume_ids, len(names))
    location = catalog.get_location(place["location_id"], access, "location_id")
    chosen_volumes = new_instances.lock_chosen(volume_ids, location, access)
    create_row = self_provisioning.create_from_pack if place["pack_id"] else instances.create
    place = {name: value for name, value in place.items() if value}
    rows = []
    for name, hostname in zip(names, hostnames, strict=True):
        node = new_instances.choose_host(chosen_volumes)
        row = create_row(access, **place, display_name=name, hostname=hostname, actor=actor, node=node)
        if project_id:
            projects.assign(access, [("instance", row.id)], project_id)
        instances.set_tags(row, order["tags"] or [])
        for volume in chosen_volumes:
            new_instances.attach(volume, row, actor=actor)
        if order["volume_plan_id"]:
            new_instances.create(
                access,
                row,
                name=f"{row.display_name[:250]}-data",
                volume_plan_id=order["volume_plan_id"],
                project_id=project_id,
                actor=actor,
            )
        rows.append(row)
    return rows


def boot_iso(instance, iso_id):
    ensure_permission("instances.manage")
    return self_deploy(
        instance, iso_id=iso_id, account=get_current_access(), actor=get_current_actor(), error_field="image_id"
    )


def to_hostname(name):
    """Return the name if it is a valid host name, else None."""
    try:
        return Hostname().deserialize(name) if name else None
    except ValidationError:
        return None


def ensure_hostnames(hostnames):
    """Raise unless all of these are valid: a number may have made one too long."""
    if not all(map(to_hostname, hostnames)):
        sentence = _("The value must be a valid hostname.")
        raise Invalid(sentence, hostname=sentence)
