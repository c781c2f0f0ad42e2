"""Machines that their owners install by themselves, from an ISO."""

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Iso
from panel.services.docker_deployments import state_reports as docker_deployments
from panel.services.instances import state_reports
from worker.engine.registry import task
from worker.tasks import cloud_init, media_downloads
from worker.tasks.instances import failed, known, power_off, turned
from worker.tasks.machine_spec import disk_of, machine, seed_name
from worker.tasks.optical_drives import lying, place
from worker.tasks.spec_rescue import leave


def not_deployed(row, error):
    media_downloads.gave_up(row, error)
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
    medium = work.node.write_seed(disk.pool, seed_name(instance), cloud_init.seed(instance, words, None, work.task.id))

    work.step("Booting the ISO", 80)
    work.undo("delete", instance.id)
    work.node.define(machine(instance, medium))
    asked = clock.now()
    work.node.start(instance.id)
    turned(work, "on", asked)
    state_reports.deployed(instance, actor=work.task.actor)
