"""Bringing changed settings of a machine to its node."""

from worker.engine.registry import task
from worker.tasks.instances import known
from worker.tasks.machine_spec import machine

BUILDING = ("instance_deploy", "instance_start", "instance_restart")


@task("instance_configure", after=BUILDING)
def configure(work):
    """Defines the machine anew, as its row is now. A guest that runs goes on with what it has until its next start."""
    instance = known(work)
    if instance.deployed:
        work.step("Changing the definition", 50)
        work.node.define(machine(instance))
