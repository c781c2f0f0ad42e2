"""The media tab of an instance: drives, installing from an ISO, rescue, capturing an image."""

from flask import request
from marshmallow import ValidationError

from panel.auth.browser_session import get_current_actor
from panel.core.db import session
from panel.core.errors import Invalid, Problem
from panel.pages.shared.area import (
    get_instance,
    get_owner,
    has_permission,
    is_operator_area,
    route,
    scope_account,
    tab_url,
)
from panel.schemas.image_captures import CaptureIn
from panel.services import image_captures, instances, isos
from panel.services.instances import drives, rescue
from panel.services.instances.self_deploy import ensure_self_deployable, self_deploy
from panel.web.htmx import build_action_response
from panel.web.translation import gettext as _
from panel.workflows import reachability

MAX_OFFERED_ISOS = 200
"""Maximum of ISOs in a select field."""


def build_context(instance):
    """Return the context of the tab, with the reasons why operations are disabled."""
    state = rescue.describe_state(instance)
    iso_query = isos.listing(get_owner(instance)).limit(MAX_OFFERED_ISOS) if has_permission("isos.view") else None
    return {
        "slots": [
            ("primary", _("First drive"), instance.iso),
            ("secondary", _("Second drive"), instance.secondary_iso),
        ],
        "isos": session.scalars(iso_query).all() if iso_query is not None else [],
        "rescue": state,
        "media_error": find_error_message(lambda: drives.ensure_changeable(instance, is_operator_area())),
        "rescue_error": find_error_message(lambda: ensure_rescue_possible(instance, not state["active"])),
        "install_error": find_error_message(lambda: ensure_self_deployable(instance)),
        "capture_error": find_error_message(lambda: image_captures.ensure_capturable(instance)),
    }


def ensure_rescue_possible(instance, enable):
    rescue.ensure_switchable(instance, enable, is_operator_area(), None)
    if enable and instance.power == "on":
        raise Invalid(rescue.NOT_STOPPED_MESSAGE)


def find_error_message(check):
    """Return the message of the refusal, or None."""
    try:
        check()
    except Problem as problem:
        return problem.message
    return None


def media_tab_url(instance):
    return tab_url(instance, "media")


def get_requested_iso():
    return isos.get_chosen(request.form.get("iso_id", "")[:36], scope_account())


@route("POST", "/<instance_id>/drive/<slot>/mount", can="instances.manage")
def mount(instance_id, slot):
    instance = get_instance(instance_id)
    iso = get_requested_iso()
    reachability.check_node(instance.hypervisor)
    instances.mount(instance, slot, iso, actor=get_current_actor(), by_operator=is_operator_area())
    return build_action_response(_("Insertion of %(name)s requested.", name=iso.name), media_tab_url(instance))


@route("POST", "/<instance_id>/drive/<slot>/unmount", can="instances.manage")
def unmount(instance_id, slot):
    instance = get_instance(instance_id)
    reachability.check_node(instance.hypervisor)
    task = instances.unmount(instance, slot, actor=get_current_actor(), by_operator=is_operator_area())
    return build_action_response(
        _("Ejection requested.") if task else _("The drive is already empty."), media_tab_url(instance)
    )


@route("POST", "/<instance_id>/self-deploy", can="instances.manage")
def install(instance_id):
    instance = get_instance(instance_id)
    if request.form.get("typed", "").strip() != instance.display_name and instance.deployed:
        error = _("The name does not match. Nothing was changed.")
        raise Invalid(error, typed=error)
    iso = get_requested_iso()
    self_deploy(instance, iso_id=iso.id, account=scope_account(), actor=get_current_actor())
    return build_action_response(_("Installation from %(name)s requested.", name=iso.name), media_tab_url(instance))


@route("POST", "/<instance_id>/rescue/<switch>", can="instances.manage")
def rescue_it(instance_id, switch):
    instance = get_instance(instance_id)
    task = rescue.switch(instance, switch == "on", actor=get_current_actor(), by_operator=is_operator_area())
    return build_action_response(rescue.get_result_message(switch == "on", task), media_tab_url(instance))


@route("POST", "/<instance_id>/capture", can="images.manage")
def capture(instance_id):
    instance = get_instance(instance_id)
    try:
        name = CaptureIn(only=["name"]).load({"name": request.form.get("name", "")})["name"]
    except ValidationError:
        raise Invalid(_("Enter a name for the image.")) from None
    image = image_captures.capture(instance, name=name, actor=get_current_actor())
    return build_action_response(_("Image %(name)s requested.", name=image.name), media_tab_url(instance))
