"""What a new instance gets beside plan and image: project, tags, volumes, security groups, and how many there are."""

from decimal import Decimal

from marshmallow import fields, validate

from panel.auth.browser_session import ensure_permission, get_current_access, has_permission, permission_error
from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import SecurityGroup
from panel.pages.shared.firewall.rule_form import RULE_PRESETS, get_preset_group
from panel.schemas.base import Bool, In, Int, Text
from panel.schemas.bulk import Tags
from panel.schemas.instances import DeployIn, key_ids_field
from panel.services import placement, projects, security_groups, usage, volume_plans, volumes
from panel.services.instances import quantity as quantities
from panel.services.volumes import new_instances
from panel.web.translation import gettext as _

MAX_OFFERED_ROWS = 100
"""Maximum of volumes and of security groups that the form offers."""
PERMISSIONS = {
    "project_id": "projects.manage",
    "tags": "instances.manage",
    "security_group_ids": "security_groups.manage",
    "presets": "security_groups.manage",
    "volume_ids": "volumes.manage",
    "volume_plan_id": "volumes.manage",
}
"""The permission that each field needs, beside the one to create instances."""


class FirstBootForm(DeployIn):
    image_id = Text(maximum=40, required=True)
    """An image, or an ISO behind ISO_PREFIX."""


class OrderForm(In):
    quantity = Int(1, quantities.MAX_INSTANCES_PER_REQUEST, load_default=1)
    project_id = Text(maximum=36)
    tags = Tags()
    security_group_ids = key_ids_field()
    presets = fields.List(fields.String(validate=validate.OneOf(RULE_PRESETS)))
    volume_ids = key_ids_field()
    volume_plan_id = Text(maximum=36)
    confirmed = Bool(load_default=False)


def list_order_choices(form, choices):
    """Return the choices of the order's fields, each with the reason why it is unavailable, and what they cost."""
    quantity = parse_quantity(form)
    volume_choices = list_volumes(choices["location"], quantity)
    plans, volume_error = list_volume_plans()
    volume_plan = next((plan for plan in plans if plan.id == form.get_value("volume_plan_id")), None)
    groups = list_groups() if has_permission("security_groups.view") else []
    order = {
        "quantity": quantity,
        "max_quantity": quantities.MAX_INSTANCES_PER_REQUEST,
        "room_error": describe_missing_room(choices, quantity),
        "projects": list_projects(),
        "project_error": permission_error("projects.manage"),
        "tags_error": permission_error("instances.manage"),
        "groups": groups,
        "groups_error": permission_error("security_groups.view") or permission_error("security_groups.manage"),
        "presets": RULE_PRESETS,
        "ssh_blocked": is_ssh_blocked(form, {group.id for group in groups}),
        "are_volumes_offered": not usage.billing_error(get_current_access()),
        "volume_choices": volume_choices,
        "volume_plans": plans,
        "volume_plan": volume_plan,
        "volume_error": volume_error,
    }
    return order | price_order(choices, order)


def parse_quantity(form):
    """Return the number of instances, 1 while the field has no valid number."""
    text = str(form.get_value("quantity") or 1)
    quantity = int(text) if text.isascii() and text.isdecimal() else 1
    return min(max(quantity, 1), quantities.MAX_INSTANCES_PER_REQUEST)


def describe_missing_room(choices, quantity):
    """Return how many instances of the plan fit, if fewer than requested, or None."""
    if quantity == 1 or not (choices["plan"] and choices["location"]):
        return None
    room = placement.count_machines(choices["location"], choices["plan"], quantity)
    return quantities.describe_room(room) if room < quantity else None


def list_projects():
    if not has_permission("projects.view"):
        return []
    return [(row.id, row.name) for row in session.scalars(projects.listing(get_current_access()))]


def list_groups():
    return session.scalars(security_groups.listing(get_current_access()).limit(MAX_OFFERED_ROWS)).all()


def is_ssh_blocked(form, offered_ids):
    """Return whether the chosen groups block SSH to the new instance."""
    group_ids = offered_ids & set(form.get_values("security_group_ids"))
    presets = [name for name in form.get_values("presets") if name]
    if not group_ids and not presets:
        return False
    return "ssh" not in presets and not security_groups.allows_ssh(group_ids)


def list_volumes(location, quantity):
    """Return the account's volumes, each with the reason why it cannot be attached or None."""
    if not has_permission("volumes.view") or usage.billing_error(get_current_access()):
        return []
    rows = session.scalars(volumes.listing(get_current_access()).limit(MAX_OFFERED_ROWS)).unique().all()
    error = permission_error("volumes.manage") or (
        _("A volume can be attached to one instance only.") if quantity > 1 else None
    )
    return [(row, new_instances.choice_error(row, location) or error) for row in rows]


def list_volume_plans():
    """Return the volume plans, and why no volume can be created or None."""
    error = permission_error("volumes.manage") or usage.billing_error(get_current_access())
    plans = [] if error else session.scalars(volume_plans.select_offered()).all()
    return plans, error or (None if plans else _("No volume plan is available at the moment."))


def price_order(choices, order):
    """Return the price of all instances and new volumes, per month and per hour."""
    price = Decimal(0) if choices.get("pack") or not choices["plan"] else Decimal(choices["plan"].price)
    volume_price = order["volume_plan"].price if order["volume_plan"] else 0
    total = order["quantity"] * (price + volume_price)
    return {"price_per_month": total, "price_per_hour": total / usage.HOURS_PER_MONTH}


def ensure_permissions(values):
    """Raise when a field with a value needs a permission that the person lacks."""
    for name, permission in PERMISSIONS.items():
        if values.get(name):
            ensure_permission(permission)
    if values.get("volume_ids") or values.get("volume_plan_id"):
        usage.ensure_billing_enabled(get_current_access())


def choose_groups(group_ids, presets, *, is_confirmed, actor):
    """Return the chosen groups, with one for the presets. Raise when they block SSH, unless that is confirmed."""
    access = get_current_access()
    groups: list[SecurityGroup] = [
        security_groups.get(group_id, access, error_field="security_group_ids") for group_id in dict.fromkeys(group_ids)
    ]
    if presets:
        groups.append(get_preset_group(access, presets, actor=actor))
    if groups and not is_confirmed and not security_groups.allows_ssh([group.id for group in groups]):
        sentence = _("No rule allows SSH to the new instance.")
        raise Invalid(sentence, security_group_ids=sentence)
    return groups


def ensure_volumes_fit_quantity(volume_ids, quantity):
    if volume_ids and quantity > 1:
        sentence = message("A volume can be attached to one instance only.")
        raise Invalid(sentence, volume_ids=sentence)
