"""Reinstalling an instance from an image. Its extra disks, addresses and hypervisor stay."""

from typing import Any

from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Account, Instance, Task
from panel.services.access import Access
from panel.services.instances import first_boot
from panel.services.instances.actions import enqueue
from panel.services.instances.blockers import ensure_disks_free
from panel.services.state_machine import ensure_allowed


def reinstall(
    instance: Instance,
    *,
    actor: str,
    image_id: str | None = None,
    account: Access | Account | None = None,
    **options: Any,
) -> tuple[Task, str | None]:
    """Enqueue the reinstallation, by default with the current image. Return the task and the generated password or
    None. The row describes the old system until the task deletes it.

    Refusals are in `state_machine` (protection, suspension, another task) and `blockers`.
    """
    ensure_allowed(instance, "reinstall", by_operator=account is None)
    ensure_disks_free(instance)
    image_id = image_id or instance.image_id
    if image_id is None:
        raise Invalid(
            message("The image that it was created from is no longer in the catalog."),
            image_id=message("Choose an image."),
        )
    _, arguments, secret, generated_password = first_boot.prepare_first_boot(
        instance, image_id, account=account, **options
    )
    return enqueue(
        instance, "reinstall", "exclusive", actor=actor, arguments=arguments, secret=secret
    ), generated_password
