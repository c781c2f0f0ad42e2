"""What can be chosen for an instance: every choice, with the reason why it cannot be taken now."""

import json
from collections import defaultdict

from flask import current_app
from sqlalchemy.orm import contains_eager

from panel.auth.browser_session import current_access
from panel.core.db import session
from panel.models import Plan
from panel.pages.shared.area import has_permission, owner_of
from panel.schemas.instances import TIME_ZONES
from panel.services import catalog, instances, ssh_keys, user_scripts

BRAND_ICONS = {
    "debian": "brand-debian",
    "ubuntu": "brand-ubuntu",
    "windows": "brand-windows",
    "red hat": "brand-redhat",
}
HIDDEN_PASSWORD = "********"


def form_choices(form, instance=None):
    """Everything for the form as it is filled in. With an instance, place and size are settled."""
    owner = owner_of(instance) if instance else current_access()
    locations = session.scalars(catalog.select_locations(owner)).all()
    full = set() if instance else instances.find_full_locations(locations)
    location = instance.group if instance else pick_location(locations, form.value("location_id"), full)
    offered = list_plans(location) if location and not instance else []
    short = instances.capacity_errors(location, offered) if offered else {}
    plan = instance or pick_or_first(offered, form.value("plan_id"), lambda it: not short[it])
    images = session.scalars(catalog.select_images(owner)).unique().all()
    unfit = {image: instances.image_error(plan, image) if plan else None for image in images}
    image = pick_or_first(images, form.value("image_id"), lambda it: not unfit[it])
    keys = session.scalars(ssh_keys.listing(owner)).all()
    return {
        "locations": locations,
        "location": location,
        "full": full,
        "plans": group_by(offered, lambda it: it.group.display_name),
        "short": short,
        "plan": plan,
        "images": group_by(images, lambda it: it.distro),
        "unfit": unfit,
        "image": image,
        "brand": brand_icon,
        "keys": keys,
        "ticked": form.values("ssh_keys") if form.has("ssh_keys") else [key.id for key in keys],
        "scripts": session.scalars(user_scripts.listing(owner)).all() if has_permission("user_scripts.view") else [],
        "zones": [(name, name.replace("_", " ")) for name in sorted(TIME_ZONES)],
        "suggested": suggest_name(location, plan, image),
    }


def list_plans(location):
    return session.scalars(catalog.select_plans(location).options(contains_eager(Plan.group))).all()


def pick_location(locations, location_id, full):
    """The location that was chosen; else the first with room, else the first that is up."""
    if any(row.id == location_id for row in locations):
        return pick_or_first(locations, location_id, lambda row: row.is_available)
    with_room = [row for row in locations if row.id not in full]
    return pick_or_first(with_room, None, lambda row: row.is_available) or pick_or_first(
        locations, None, lambda row: row.is_available
    )


def pick_or_first(rows, row_id, is_available):
    """The row that was chosen, if it can be had; else the first that can."""
    fitting = [row for row in rows if is_available(row)]
    return next((row for row in fitting if row.id == row_id), fitting[0] if fitting else None)


def group_by(rows, name):
    found = defaultdict(list)
    for row in rows:
        found[name(row)].append(row)
    return found.items()


def brand_icon(image):
    """The drawing for a distribution."""
    return next((icon for word, icon in BRAND_ICONS.items() if word in image.distro.lower()), "disc")


def suggest_name(location, plan, image):
    """A name that says what it is: `debian-2gb-fsn1`."""
    if not (location and plan and image):
        return ""
    size = f"{plan.ram // 1024}gb" if plan.ram >= 1024 else f"{plan.ram}mb"
    words = (image.distro.split()[0], size, location.name)
    return "-".join("".join(c for c in word.lower() if c.isalnum()) for word in words)


def as_curl(form, choices):
    """The two calls of the API that do the same. A password stays out of it."""
    pack = choices.get("pack")
    place = {
        "location_id": choices["location"] and choices["location"].id,
        "plan_id": choices["plan"] and choices["plan"].id,
    }
    if pack:
        place["pack_id"] = pack.id
    for name in ("display_name", "hostname"):
        if form.value(name):
            place[name] = form.value(name)
    deploy = {"image_id": choices["image"] and choices["image"].id, "ssh_keys": choices["ticked"]}
    if form.values("user_scripts"):
        deploy["user_scripts"] = form.values("user_scripts")
    for name in ("timezone", "cloudcfg"):
        if form.value(name):
            deploy[name] = form.value(name)
    if form.value("password"):
        deploy["password"] = HIDDEN_PASSWORD
    base = current_app.extensions["config"].public_url.rstrip("/")
    family = "self-provisioning" if pack else "cloud-service"
    return format_curl(f"{base}/api/{family}/instances", place), format_curl(
        f"{base}/api/instance/$INSTANCE/deploy", deploy
    )


def format_curl(address, body):
    text = json.dumps(body, indent=2, ensure_ascii=False).replace("'", "'\\''")
    headers = ("Authorization: Bearer $TOKEN", "Content-Type: application/json")
    parts = (f'curl -X POST "{address}"', *(f'-H "{header}"' for header in headers), f"-d '{text}'")
    return " \\\n  ".join(parts)
