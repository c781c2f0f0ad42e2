"""Installing by oneself: a blank disk, and an ISO to boot from."""

from panel.core.errors import Conflict, Invalid
from panel.services import isos
from panel.services.instances.actions import enqueue
from panel.services.instances.blockers import refuse_held
from panel.services.state_machine import BUSY, WORDS


def self_deploy(instance, *, iso_id, actor, account=None, hostname=None, field="iso_id"):
    """Empties the instance's disk and boots the ISO, whatever was there. Returns the task. `account` limits which ISOs
    may be named; operators pass none."""
    allow(instance)
    iso = isos.chosen(iso_id, account, field)
    if not iso.url.startswith("https://"):
        raise Invalid("This ISO has no https address, so no node can fetch it.", reason="iso_url_not_https")
    arguments = {"iso_id": iso.id, "hostname": hostname or instance.hostname}
    task = enqueue(instance, "self_deploy", "exclusive", actor=actor, arguments=arguments)
    instance.hostname = hostname or instance.hostname
    instance.iso, instance.iso_id = iso, iso.id
    instance.boot, instance.last_error = "cdrom,disk", None
    return task


def allow(instance):
    if instance.suspended_reason:
        raise Conflict(WORDS["suspended"], reason="suspended")
    if instance.state == "migrating" or instance.rebuilding:
        raise Conflict(WORDS[BUSY], reason=BUSY)
    if instance.protection_enabled:
        raise Conflict(WORDS["protection_enabled"], reason="protection_enabled")
    refuse_held(instance)
