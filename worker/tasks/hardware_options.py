"""Applying changed hardware options to the node."""

from panel.core.messages import message
from worker.engine.registry import task_handler
from worker.tasks.instances import get_instance
from worker.tasks.machine_spec import build_spec

BUILDING_TASKS = ("instance_deploy", "instance_start", "instance_restart")


@task_handler("instance_configure", conflicts_with=BUILDING_TASKS)
def configure(work):
    """Define the machine again from its row. A running guest gets the change at its next start."""
    instance = get_instance(work)
    if instance.deployed:
        work.step(message("Changing the definition"), 50)
        work.node.define(build_spec(instance))
