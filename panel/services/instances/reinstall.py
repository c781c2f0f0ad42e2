"""Making a machine anew from an image. Its extra disks, addresses and place stay."""

from panel.core.errors import Invalid
from panel.services.instances import first_boot
from panel.services.instances.actions import enqueue
from panel.services.instances.blockers import ensure_disks_free
from panel.services.state_machine import ensure_allowed


def reinstall(instance, *, actor, image_id=None, account=None, **chosen):
    """Hands the rebuild to a worker; by default with the image that the machine has. Returns the task and the password
    that was made up, if any. The row goes on telling of the old system until that is given up.

    What refuses it is in `rules` (protection, suspension, another task) and in `ties`."""
    ensure_allowed(instance, "reinstall", by_operator=account is None)
    ensure_disks_free(instance)
    image_id = image_id or instance.image_id
    if image_id is None:
        raise Invalid("The image that it was made from is not in the catalog any more.", image_id="Choose an image.")
    _, arguments, secret, made = first_boot.prepare_first_boot(instance, image_id, account=account, **chosen)
    return enqueue(instance, "reinstall", "exclusive", actor=actor, arguments=arguments, secret=secret), made
