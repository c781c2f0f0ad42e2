"""Machines that their owners install by themselves, from an ISO."""

from panel import clock
from panel.db import session
from panel.errors import NotFound
from panel.models import Iso
from panel.services.docker_deployments import seen as docker_deployments
from panel.services.instances import seen
from worker import media, seeds
from worker.drives import lying, place
from worker.instances import failed, known, power_off, turned
from worker.kinds import task
from worker.machines import disk_of, machine, seed_name
from worker.rescued import leave


def not_deployed(row, error):
    media.gave_up(row, error)
    failed(row, error)


@task("instance_self_deploy", ended_badly=not_deployed)
def self_deploy(work):
    """The old disk is given up only when the ISO lies on the node. From then on the machine has no system."""
    instance = known(work)
    iso = session.get(Iso, work.task.arguments["iso_id"])
    if iso is None:
        raise NotFound("The ISO was removed meanwhile. Choose another one.")
    lying(work, iso, place(instance))
    disk = disk_of(instance.disks[0])
    if instance.deployed:
        power_off(work, "Powering off", 40)
        leave(work, instance)
        work.step("Giving up the old disk", 50)
        instance = known(work)
        instance.deployed, instance.image_id = False, None
        docker_deployments.forget(instance)
        session.commit()

    work.step("Creating a blank disk", 60)
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(disk)
    words = {**work.task.arguments, "ssh_keys": [], "timezone": None, "cloudcfg": None}
    work.undo("delete_disk", disk.pool, seed_name(instance))
    medium = work.node.write_seed(disk.pool, seed_name(instance), seeds.seed(instance, words, None, work.task.id))

    work.step("Booting the ISO", 80)
    work.undo("delete", instance.id)
    work.node.define(machine(instance, medium))
    asked = clock.now()
    work.node.start(instance.id)
    turned(work, "on", asked)
    seen.deployed(instance, actor=work.task.actor)
