"""Switching parts of an instance on and off."""

from flask import url_for

from panel.auth.browser import actor, page_can
from panel.htmx import did
from panel.services import instances
from panel.user.instances import bp
from panel.user.instances.show import mine

SWITCHES = {"vnc": ("The screen", instances.switch_vnc), "tpm": ("The TPM", instances.switch_tpm)}


@bp.post("/<instance_id>/<any(vnc, tpm):part>/<any(enable, disable):action>")
@page_can("instances.manage")
def switch(instance_id, part, action):
    label, change = SWITCHES[part]
    change(mine(instance_id), action == "enable", actor=actor())
    words = f"{label} is switched {'on' if action == 'enable' else 'off'}."
    return did(words, url_for(".tab", instance_id=instance_id, tab="settings"))
