"""The task of instances that their owners install from an ISO."""

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Iso
from panel.services.docker_deployments import state_reports as docker_deployments
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.tasks import cloud_init, media_downloads
from worker.tasks.instances import (
    create_unused_volumes,
    get_instance,
    on_deploy_failed,
    power_off,
    record_power_after_call,
)
from worker.tasks.machine_spec import build_disk, build_spec, get_seed_name
from worker.tasks.optical_drives import choose_iso_storage, ensure_iso_on_node
from worker.tasks.spec_rescue import disable_rescue


def on_self_deploy_failed(row, error):
    media_downloads.on_download_failed(row, error)
    on_deploy_failed(row, error)


@task_handler("instance_self_deploy", on_failure=on_self_deploy_failed)
def self_deploy(work):
    """Boot the machine from an ISO with a blank disk. The old disk is replaced only when the ISO is on the node."""
    instance = get_instance(work)
    iso = session.get(Iso, work.task.arguments["iso_id"])
    if iso is None:
        raise NotFound(message("The ISO was deleted in the meantime. Choose another one."))
    ensure_iso_on_node(work, iso, choose_iso_storage(instance))
    disk = build_disk(instance.disks[0])
    if instance.deployed:
        power_off(work, message("Powering off"), 40)
        disable_rescue(work, instance)
        work.step(message("Removing the old disk"), 50)
        instance = get_instance(work)
        instance.deployed, instance.image_id = False, None
        docker_deployments.forget(instance)
        session.commit()

    work.step(message("Creating a blank disk"), 60)
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(disk)
    create_unused_volumes(work, instance)
    arguments = {**work.task.arguments, "ssh_keys": [], "timezone": None, "cloudcfg": None}
    work.undo("delete_disk", disk.pool, get_seed_name(instance))
    seed_disk = work.node.create_seed(
        disk.pool, get_seed_name(instance), cloud_init.build_seed(instance, arguments, None, work.task.id)
    )

    work.step(message("Booting the ISO"), 80)
    work.undo("delete", instance.id)
    work.node.define(build_spec(instance, seed_disk))
    queried_at = clock.now()
    work.node.start(instance.id)
    record_power_after_call(work, "on", queried_at)
    state_reports.on_deployed(instance, actor=work.task.actor)
