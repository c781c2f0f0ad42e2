"""What can be chosen for an instance: every choice, with the reason why it cannot be taken now."""

import json
from collections import defaultdict

from flask import current_app
from sqlalchemy.orm import contains_eager

from panel.auth.browser_session import viewer
from panel.core.db import session
from panel.models import Plan
from panel.pages.shared.area import may, whose
from panel.schemas.instances import ZONES
from panel.services import catalog, instances, ssh_keys, user_scripts

BRANDS = {"debian": "brand-debian", "ubuntu": "brand-ubuntu", "windows": "brand-windows", "red hat": "brand-redhat"}
HIDDEN = "********"


def choices(form, instance=None):
    """Everything for the form as it is filled in. With an instance, place and size are settled."""
    owner = whose(instance) if instance else viewer()
    locations = session.scalars(catalog.locations(owner)).all()
    full = set() if instance else instances.full_locations(locations)
    location = instance.group if instance else chosen_location(locations, form.value("location_id"), full)
    offered = plans(location) if location and not instance else []
    short = instances.shortages(location, offered) if offered else {}
    plan = instance or picked(offered, form.value("plan_id"), lambda it: not short[it])
    images = session.scalars(catalog.images(owner)).unique().all()
    unfit = {image: instances.misfit(plan, image) if plan else None for image in images}
    image = picked(images, form.value("image_id"), lambda it: not unfit[it])
    keys = session.scalars(ssh_keys.listing(owner)).all()
    return {
        "locations": locations,
        "location": location,
        "full": full,
        "plans": groups(offered, lambda it: it.group.display_name),
        "short": short,
        "plan": plan,
        "images": groups(images, lambda it: it.distro),
        "unfit": unfit,
        "image": image,
        "brand": brand,
        "keys": keys,
        "ticked": form.values("ssh_keys") if form.has("ssh_keys") else [key.id for key in keys],
        "scripts": session.scalars(user_scripts.listing(owner)).all() if may("user_scripts.view") else [],
        "zones": [(name, name.replace("_", " ")) for name in sorted(ZONES)],
        "suggested": suggestion(location, plan, image),
    }


def plans(location):
    return session.scalars(catalog.plans(location).options(contains_eager(Plan.group))).all()


def chosen_location(locations, location_id, full):
    """The location that was chosen; else the first with room, else the first that is up."""
    if any(row.id == location_id for row in locations):
        return picked(locations, location_id, lambda row: row.is_available)
    with_room = [row for row in locations if row.id not in full]
    return picked(with_room, None, lambda row: row.is_available) or picked(
        locations, None, lambda row: row.is_available
    )


def picked(rows, row_id, fits):
    """The row that was chosen, if it can be had; else the first that can."""
    fitting = [row for row in rows if fits(row)]
    return next((row for row in fitting if row.id == row_id), fitting[0] if fitting else None)


def groups(rows, name):
    found = defaultdict(list)
    for row in rows:
        found[name(row)].append(row)
    return found.items()


def brand(image):
    """The drawing for a distribution."""
    return next((icon for word, icon in BRANDS.items() if word in image.distro.lower()), "disc")


def suggestion(location, plan, image):
    """A name that says what it is: `debian-2gb-fsn1`."""
    if not (location and plan and image):
        return ""
    size = f"{plan.ram // 1024}gb" if plan.ram >= 1024 else f"{plan.ram}mb"
    words = (image.distro.split()[0], size, location.name)
    return "-".join("".join(c for c in word.lower() if c.isalnum()) for word in words)


def as_code(form, found):
    """The two calls of the API that do the same. A password stays out of it."""
    pack = found.get("pack")
    place = {"location_id": found["location"] and found["location"].id, "plan_id": found["plan"] and found["plan"].id}
    if pack:
        place["pack_id"] = pack.id
    for name in ("display_name", "hostname"):
        if form.value(name):
            place[name] = form.value(name)
    deploy = {"image_id": found["image"] and found["image"].id, "ssh_keys": found["ticked"]}
    if form.values("user_scripts"):
        deploy["user_scripts"] = form.values("user_scripts")
    for name in ("timezone", "cloudcfg"):
        if form.value(name):
            deploy[name] = form.value(name)
    if form.value("password"):
        deploy["password"] = HIDDEN
    base = current_app.extensions["config"].public_url.rstrip("/")
    family = "self-provisioning" if pack else "cloud-service"
    return curl(f"{base}/api/{family}/instances", place), curl(f"{base}/api/instance/$INSTANCE/deploy", deploy)


def curl(address, body):
    text = json.dumps(body, indent=2, ensure_ascii=False).replace("'", "'\\''")
    headers = ("Authorization: Bearer $TOKEN", "Content-Type: application/json")
    parts = (f'curl -X POST "{address}"', *(f'-H "{header}"' for header in headers), f"-d '{text}'")
    return " \\\n  ".join(parts)
