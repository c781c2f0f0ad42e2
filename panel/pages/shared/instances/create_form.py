"""The choices of the form that creates an instance, with the reasons why a choice is unavailable."""

from collections import defaultdict

from flask import current_app
from sqlalchemy.orm import contains_eager

from panel.auth.browser_session import get_current_access
from panel.core.db import session
from panel.models import Plan
from panel.pages.shared.area import get_owner, has_permission
from panel.schemas.instances import TIME_ZONES
from panel.services import catalog, instances, placement, ssh_keys, user_scripts
from panel.web.api_examples import format_curl

BRAND_ICONS = {
    "debian": "brand-debian",
    "ubuntu": "brand-ubuntu",
    "windows": "brand-windows",
    "red hat": "brand-redhat",
}
HIDDEN_PASSWORD = "********"


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
    image = pick_or_first(images, form.get_value("image_id"), lambda it: not image_errors[it])
    keys = session.scalars(ssh_keys.listing(owner)).all()
    return {
        "locations": locations,
        "location": location,
        "full": full,
        "plans": group_by(plans, lambda it: it.group.display_name),
        "plan_errors": plan_errors,
        "plan": plan,
        "images": group_by(images, lambda it: it.distro),
        "unfit_images": image_errors,
        "image": image,
        "brand": find_brand_icon,
        "keys": keys,
        "chosen_key_ids": form.get_values("ssh_keys") if form.has("ssh_keys") else [key.id for key in keys],
        "scripts": session.scalars(user_scripts.listing(owner)).all() if has_permission("user_scripts.view") else [],
        "zones": [(name, name.replace("_", " ")) for name in sorted(TIME_ZONES)],
        "suggested": suggest_name(location, plan, image),
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


def find_brand_icon(image):
    """Return the icon of a distribution."""
    return next((icon for brand, icon in BRAND_ICONS.items() if brand in image.distro.lower()), "disc")


def suggest_name(location, plan, image):
    """Return a name from image, size and location: `debian-2gb-fsn1`."""
    if not (location and plan and image):
        return ""
    size = f"{plan.ram // 1024}gb" if plan.ram >= 1024 else f"{plan.ram}mb"
    parts = (image.distro.split()[0], size, location.name)
    return "-".join("".join(c for c in part.lower() if c.isalnum()) for part in parts)


def format_curl_commands(form, choices):
    """Return the two equivalent API calls as curl commands. A password is masked."""
    pack = choices.get("pack")
    place = {
        "location_id": choices["location"] and choices["location"].id,
        "plan_id": choices["plan"] and choices["plan"].id,
    }
    if pack:
        place["pack_id"] = pack.id
    for name in ("display_name", "hostname"):
        if form.get_value(name):
            place[name] = form.get_value(name)
    deploy = {"image_id": choices["image"] and choices["image"].id, "ssh_keys": choices["chosen_key_ids"]}
    if form.get_values("user_scripts"):
        deploy["user_scripts"] = form.get_values("user_scripts")
    for name in ("timezone", "cloudcfg"):
        if form.get_value(name):
            deploy[name] = form.get_value(name)
    if form.get_value("password"):
        deploy["password"] = HIDDEN_PASSWORD
    base = current_app.extensions["config"].public_url.rstrip("/")
    family = "self-provisioning" if pack else "cloud-service"
    return format_curl("POST", f"{base}/api/{family}/instances", place), format_curl(
        "POST", f"{base}/api/instance/$INSTANCE/deploy", deploy
    )
