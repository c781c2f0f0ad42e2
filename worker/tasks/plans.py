"""What the task of a change of plan does on the node: the disk grows while the guest goes on. The rest is in the row
already, and in the machine at its next start."""

from contextlib import suppress

from panel.services.instances import state_reports
from worker.engine.registry import task
from worker.nodes.base import NodeError
from worker.tasks.instances import known
from worker.tasks.machine_spec import disk_of

PATIENCE = 60
"""Seconds that a guest has to grow its file system."""


def disk_stays(row, error):
    """The rows say again what is on the node. The plan may be chosen once more: then only the disk is grown."""
    for instance in state_reports.fresh(row.resource_id):
        if instance.disks:
            instance.disks[0].size = instance.storage = row.arguments["size"]


@task("instance_change_plan", ended_badly=disk_stays)
def change_plan(work):
    instance = known(work)
    work.step("Growing the disk", 20)
    work.node.grow_disk(disk_of(instance.disks[0]), instance.id)
    if instance.power == "on":
        work.step("Growing the file system", 70)
        with suppress(NodeError):  # without its agent the guest does it at its next boot
            work.node.agent_run(instance.id, ["grow-root"], deadline=PATIENCE)
