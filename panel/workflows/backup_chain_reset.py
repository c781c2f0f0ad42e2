"""Reset the chain of an instance's backups, while the request waits for the node."""

from panel.core.errors import Conflict
from panel.services import backup_restores, instance_backups
from panel.services.state_machine import make_problem
from panel.workflows import reachability, waiting

RESET_TIMEOUT_SECONDS = 10
"""How long a request waits. A reset that has not ended by then, because a backup is running, follows it."""


def run(instance, *, actor, disk_id=None):
    """Let the next backup read everything, or one disk completely. Raise `hypervisor_refused` (409) or
    `hypervisor_unreachable` (503); nothing was changed then."""
    instance_backups.ensure_disk_known(instance, disk_id)
    backup_restores.ensure_node_up(instance.hypervisor)
    reachability.check_node(instance.hypervisor)
    if disk_id:
        instance_backups.reset_chain(instance, disk_id)
        return
    task = waiting.wait_for_task(instance_backups.enqueue_chain_reset(instance, actor), RESET_TIMEOUT_SECONDS)
    if task.status == "failed":
        if task.error_class == "Unreachable":
            raise make_problem("hypervisor_unreachable")
        raise Conflict(task.error, reason="hypervisor_refused")
