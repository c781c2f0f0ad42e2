"""The media of an instance: its drives, installing from an ISO, rescue, and making an image of it."""

from flask import request
from marshmallow import ValidationError

from panel.auth.browser_session import actor
from panel.core.db import session
from panel.core.errors import Invalid, Problem
from panel.pages.shared.area import asker, at, found, may, operating, page, whose
from panel.schemas.image_captures import CaptureIn
from panel.services import image_captures, instances, isos
from panel.services.instances import drives, rescue
from panel.services.instances.self_deploy import allow as may_self_deploy
from panel.services.instances.self_deploy import self_deploy
from panel.web.htmx import did
from panel.workflows import reachability

MOST = 200
"""ISOs in a choice."""


def context(instance):
    """What the tab shows, with the reasons why something cannot be done now."""
    state = rescue.state(instance)
    offered = isos.listing(whose(instance)).limit(MOST) if may("isos.view") else None
    return {
        "slots": [
            ("primary", "First drive", instance.iso),
            ("secondary", "Second drive", instance.secondary_iso),
        ],
        "isos": session.scalars(offered).all() if offered is not None else [],
        "rescue": state,
        "no_media": said(lambda: drives.allow(instance, operating())),
        "no_rescue": said(lambda: rescue_refusal(instance, not state["active"])),
        "no_install": said(lambda: may_self_deploy(instance)),
        "no_capture": said(lambda: image_captures.refuse(instance)),
    }


def rescue_refusal(instance, enable):
    rescue.allow(instance, enable, operating(), None)
    if enable and instance.power == "on":
        raise Invalid(rescue.NOT_STOPPED)


def said(check):
    """The sentence of the refusal, or None."""
    try:
        check()
    except Problem as problem:
        return problem.message
    return None


def back(instance):
    return at(instance, "media")


def named():
    return isos.chosen(request.form.get("iso_id", "")[:36], asker())


@page("POST", "/<instance_id>/drive/<slot>/mount", can="instances.manage")
def mount(instance_id, slot):
    instance = found(instance_id)
    iso = named()
    reachability.check_node(instance.hypervisor)
    instances.mount(instance, slot, iso, actor=actor(), by_operator=operating())
    return did(f"Insertion of {iso.name} requested.", back(instance))


@page("POST", "/<instance_id>/drive/<slot>/unmount", can="instances.manage")
def unmount(instance_id, slot):
    instance = found(instance_id)
    reachability.check_node(instance.hypervisor)
    task = instances.unmount(instance, slot, actor=actor(), by_operator=operating())
    return did("Ejection requested." if task else "The drive is empty already.", back(instance))


@page("POST", "/<instance_id>/self-deploy", can="instances.manage")
def install(instance_id):
    instance = found(instance_id)
    if request.form.get("typed", "").strip() != instance.display_name and instance.deployed:
        wrong = "That is not the name of this instance. Nothing was done."
        raise Invalid(wrong, typed=wrong)
    iso = named()
    self_deploy(instance, iso_id=iso.id, account=asker(), actor=actor())
    return did(f"Installation from {iso.name} requested.", back(instance))


@page("POST", "/<instance_id>/rescue/<switch>", can="instances.manage")
def rescue_it(instance_id, switch):
    instance = found(instance_id)
    task = rescue.switch(instance, switch == "on", actor=actor(), by_operator=operating())
    words = "Start of the rescue system requested." if switch == "on" else "End of the rescue requested."
    return did(words if task else "It is so already.", back(instance))


@page("POST", "/<instance_id>/capture", can="images.manage")
def capture(instance_id):
    instance = found(instance_id)
    try:
        name = CaptureIn(only=["name"]).load({"name": request.form.get("name", "")})["name"]
    except ValidationError:
        raise Invalid("Give the image a name.") from None
    image = image_captures.capture(instance, name=name, actor=actor())
    return did(f"Image {image.name} requested.", back(instance))
