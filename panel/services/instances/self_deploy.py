"""Installation by the customer: a blank disk, and an ISO to boot from."""

from panel.core.errors import Invalid
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Account, Instance, Task
from panel.services import isos
from panel.services.access import Access
from panel.services.instances.actions import enqueue
from panel.services.instances.blockers import ensure_disks_free
from panel.services.state_machine import TASK_RUNNING, make_problem

NOT_HTTPS_MESSAGE = message("This ISO has no https address, so no node can fetch it.")

task_kind("instance_self_deploy", "Installation from an ISO")


def self_deploy(
    instance: Instance,
    *,
    iso_id: str,
    actor: str,
    account: Access | Account | None = None,
    hostname: str | None = None,
    error_field: str = "iso_id",
) -> Task:
    """Replace the instance's disk by a blank one and boot the ISO. Return the task. `account` limits which ISOs may be
    used; operators pass none."""
    ensure_self_deployable(instance)
    iso = isos.get_chosen(iso_id, account, error_field)
    if not iso.url.startswith("https://"):
        raise Invalid(NOT_HTTPS_MESSAGE, reason="iso_url_not_https")
    arguments = {"iso_id": iso.id, "hostname": hostname or instance.hostname}
    task = enqueue(instance, "self_deploy", "exclusive", actor=actor, arguments=arguments)
    instance.hostname = hostname or instance.hostname
    instance.iso, instance.iso_id = iso, iso.id
    instance.boot, instance.last_error = "cdrom,disk", None
    return task


def ensure_self_deployable(instance: Instance) -> None:
    if instance.suspended_reason:
        raise make_problem("suspended")
    if instance.state == "migrating" or instance.rebuilding:
        raise make_problem(TASK_RUNNING)
    if instance.protection_enabled:
        raise make_problem("protection_enabled")
    ensure_disks_free(instance)
