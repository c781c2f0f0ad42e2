"""The task of a change of plan: grow the disk of the running guest.

The rows already have the other changes, which the machine gets at its next start.
"""

from contextlib import suppress

from panel.core.messages import message
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.nodes.base import NodeError
from worker.tasks.instances import get_instance
from worker.tasks.machine_spec import build_disk

GROW_TIMEOUT_SECONDS = 60
"""Seconds that a guest has to grow its file system."""


def on_plan_change_failed(row, error):
    """Set the rows to the disk size on the node. When the plan is chosen again, only the disk is grown."""
    for instance in state_reports.lock_instances(row.resource_id):
        if instance.disks:
            instance.disks[0].size = instance.storage = row.arguments["size"]


@task_handler("instance_change_plan", on_failure=on_plan_change_failed)
def change_plan(work):
    instance = get_instance(work)
    work.step(message("Growing the disk"), 20)
    work.node.grow_disk(build_disk(instance.disks[0]), instance.id)
    if instance.power == "on":
        work.step(message("Growing the file system"), 70)
        with suppress(NodeError):  # without an agent the guest grows it at its next boot
            work.node.agent_run(instance.id, ["grow-root"], deadline=GROW_TIMEOUT_SECONDS)
