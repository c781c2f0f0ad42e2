"""Hardware options of an instance: switching them on and off."""

from panel.auth.browser_session import actor
from panel.pages.shared.area import get_instance, route, tab_url
from panel.services import instances
from panel.web.htmx import action_done


def switch_mail(instance, on, *, actor):
    instances.update(instance, actor=actor, enable_smtp=on)


SWITCHES = {
    "mail": ("Mail by port 25", switch_mail),
    "vnc": ("The screen", instances.switch_vnc),
    "tpm": ("The TPM", instances.switch_tpm),
    "secure-boot": ("Secure boot", instances.switch_secure_boot),
}


@route(
    "POST",
    "/<instance_id>/<any(mail, vnc, tpm, 'secure-boot'):part>/<any(enable, disable):action>",
    can="instances.manage",
)
def switch(instance_id, part, action):
    label, change = SWITCHES[part]
    instance = get_instance(instance_id)
    change(instance, action == "enable", actor=actor())
    message = f"{label} is switched {'on' if action == 'enable' else 'off'}."
    return action_done(message, tab_url(instance, "settings"))
