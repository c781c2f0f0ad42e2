"""The choices of the form that creates an instance, with the reasons why a choice is unavailable."""

from collections import defaultdict

from sqlalchemy.orm import contains_eager

from panel.auth.browser_session import get_current_access
from panel.core.db import session
from panel.models import Plan
from panel.pages.shared.area import get_owner, has_permission, permission_error
from panel.schemas.instances import TIME_ZONES
from panel.services import catalog, instances, isos, placement, ssh_keys, user_scripts
from panel.services.instances import self_deploy

ISO_PREFIX = "iso:"
"""Stands before the id of an ISO in the field `image_id`, where people choose an image or an ISO."""
MAX_OFFERED_ISOS = 100


def list_form_choices(form, instance=None):
    """Return the choices for the form as it is filled in. With an instance, location and plan are fixed."""
    owner = get_owner(instance) if instance else get_current_access()
    locations = session.scalars(catalog.select_locations(owner)).all()
    full = set() if instance else placement.find_full_locations(locations)
    location = instance.group if instance else pick_location(locations, form.get_value("location_id"), full)
    plans = list_plans(location) if location and not instance else []
    plan_errors = placement.list_capacity_errors(location, plans) if plans else {}
    plan = instance or pick_or_first(plans, form.get_value("plan_id"), lambda it: not plan_errors[it])
    images = session.scalars(catalog.select_images(owner)).unique().all()
    image_errors = {image: instances.image_error(plan, image) if plan else None for image in images}
    iso_errors = {} if instance else list_iso_errors(owner)
    iso = next((row for row, error in iso_errors.items() if not error and is_chosen_iso(form, row)), None)
    image = None if iso else pick_or_first(images, form.get_value("image_id"), lambda it: not image_errors[it])
    keys = session.scalars(ssh_keys.listing(owner)).all()
    return {
        "locations": locations,
        "location": location,
        "full": full,
        "plans": group_by(plans, lambda it: it.group.display_name),
        "plan_errors": plan_errors,
        "plan": plan,
        "images": group_by([row for row in images if not row.account_id], lambda it: it.distro),
        "own_images": [row for row in images if row.account_id],
        "iso_errors": iso_errors,
        "iso": iso,
        "unfit_images": image_errors,
        "image": image,
        "keys": keys,
        "chosen_key_ids": form.get_values("ssh_keys") if form.has("ssh_keys") else [key.id for key in keys],
        "scripts": session.scalars(user_scripts.listing(owner)).all() if has_permission("user_scripts.view") else [],
        "zones": [(name, name.replace("_", " ")) for name in sorted(TIME_ZONES)],
        "suggested": suggest_name(location, plan, image.distro if image else iso and iso.name),
    }


def list_plans(location):
    return session.scalars(catalog.select_plans(location).options(contains_eager(Plan.group))).all()


def pick_location(locations, location_id, full):
    """Return the chosen location; else the first available one with capacity, else the first available one."""
    if any(row.id == location_id for row in locations):
        return pick_or_first(locations, location_id, lambda row: row.is_available)
    with_room = [row for row in locations if row.id not in full]
    return pick_or_first(with_room, None, lambda row: row.is_available) or pick_or_first(
        locations, None, lambda row: row.is_available
    )


def pick_or_first(rows, row_id, is_available):
    """Return the row with the id if it is available, else the first available one, or None."""
    fitting = [row for row in rows if is_available(row)]
    return next((row for row in fitting if row.id == row_id), fitting[0] if fitting else None)


def group_by(rows, name):
    groups = defaultdict(list)
    for row in rows:
        groups[name(row)].append(row)
    return groups.items()


def list_iso_errors(owner):
    """Return for each ISO why a new instance cannot boot from it, or None."""
    if not has_permission("isos.view"):
        return {}
    error = permission_error("instances.manage")
    rows = session.scalars(isos.listing(owner).limit(MAX_OFFERED_ISOS)).all()
    return {row: error or (None if row.url.startswith("https://") else self_deploy.NOT_HTTPS_MESSAGE) for row in rows}


def is_chosen_iso(form, iso):
    return form.get_value("image_id") == f"{ISO_PREFIX}{iso.id}"


def suggest_name(location, plan, source):
    """Return a name from the distribution or ISO, size and location: `debian-2gb-fsn1`."""
    if not (location and plan and source):
        return ""
    size = f"{plan.ram // 1024}gb" if plan.ram >= 1024 else f"{plan.ram}mb"
    parts = (source.split()[0], size, location.name)
    return "-".join("".join(c for c in part.lower() if c.isalnum()) for part in parts)
