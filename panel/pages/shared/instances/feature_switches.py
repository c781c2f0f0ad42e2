"""Hardware options of an instance: switching them on and off."""

from panel.auth.browser_session import get_current_actor
from panel.pages.shared.area import get_instance, route, tab_url
from panel.services import instances
from panel.web.htmx import build_action_response
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext


def switch_mail(instance, on, *, actor):
    instances.update(instance, actor=actor, enable_smtp=on)


FEATURE_SWITCHES = {
    "mail": (lazy_gettext("Outgoing mail"), switch_mail),
    "vnc": (lazy_gettext("Console"), instances.set_vnc),
    "tpm": (lazy_gettext("TPM"), instances.set_tpm),
    "secure-boot": (lazy_gettext("Secure boot"), instances.set_secure_boot),
}


@route(
    "POST",
    "/<instance_id>/<any(mail, vnc, tpm, 'secure-boot'):part>/<any(enable, disable):action>",
    can="instances.manage",
)
def switch(instance_id, part, action):
    label, change = FEATURE_SWITCHES[part]
    instance = get_instance(instance_id)
    change(instance, action == "enable", actor=get_current_actor())
    message = _("%(label)s enabled.", label=label) if action == "enable" else _("%(label)s disabled.", label=label)
    return build_action_response(message, tab_url(instance, "settings"))
