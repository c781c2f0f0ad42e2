"""Switching parts of anybody's instance on and off."""

from flask import Blueprint, url_for

from panel.auth.browser import actor, page_can
from panel.htmx import did
from panel.services import instances

bp = Blueprint("admin_instance_switches", __name__, url_prefix="/admin/instances")
SWITCHES = {"vnc": ("The screen", instances.switch_vnc), "tpm": ("The TPM", instances.switch_tpm)}


@bp.post("/<instance_id>/<any(vnc, tpm):part>/<any(enable, disable):action>")
@page_can("admin:instances:write")
def switch(instance_id, part, action):
    label, change = SWITCHES[part]
    instance = instances.get(instance_id)
    change(instance, action == "enable", actor=actor())
    words = f"{label} of {instance.display_name} is switched {'on' if action == 'enable' else 'off'}."
    return did(words, url_for("admin_instances.show", instance_id=instance_id))
