"""Restoring a backup to a new instance: its disks are written, then it is defined and started as after a deploy."""

from panel.core import clock
from panel.core.db import session
from panel.core.messages import message
from panel.services.instances import state_reports
from worker.backups.firmware_states import unpack_state
from worker.engine.registry import task_handler
from worker.nodes.base import Seed
from worker.tasks.backup_restores import write_new_disks
from worker.tasks.cloud_init import build_network_config, to_yaml
from worker.tasks.instances import get_instance, on_deploy_failed, record_power_after_call
from worker.tasks.machine_spec import build_spec, get_seed_name


@task_handler("backup_restore_new", on_failure=on_deploy_failed)
def restore_to_new(work):
    instance = get_instance(work)
    firmware = write_new_disks(work, {disk.id: disk.name for disk in instance.disks}).firmware
    add_tpm(work, firmware)
    work.step(message("Writing the first-boot configuration"), 75)
    instance = get_instance(work)
    pool, name, seed = instance.disks[0].storage.name, get_seed_name(instance), build_seed(instance, work.task.id)
    work.undo("delete_disk", pool, name)
    seed_disk = work.node.create_seed(pool, name, seed)
    work.step(message("Defining the machine"), 80)
    instance = get_instance(work)
    work.undo("delete", instance.id)
    work.node.define(build_spec(instance, seed_disk))
    work.node.write_firmware_state(work.task.resource_id, unpack_state(firmware))
    work.step(message("Starting"), 90)
    queried_at = clock.now()
    work.node.start(work.task.resource_id)
    record_power_after_call(work, "on", queried_at)
    state_reports.on_deployed(get_instance(work), actor=work.task.actor)


def add_tpm(work, firmware):
    """Give the instance a TPM if the backup has the state of one and the hypervisor supports it."""
    instance = get_instance(work)
    instance.tpm_enabled = "tpm" in firmware and instance.hypervisor.tpm
    session.commit()


def build_seed(instance, instance_id):
    """Return a seed that gives the guest its name and network. Its users and passwords stay those of the backup."""
    user_data = {
        "hostname": instance.hostname.split(".")[0],
        "fqdn": instance.hostname,
        "users": [],
        "disable_root": False,
        "ssh_pwauth": "unchanged",
    }
    return Seed(
        meta_data=to_yaml({"instance-id": instance_id, "local-hostname": instance.hostname}),
        user_data="#cloud-config\n" + to_yaml(user_data),
        network_config=to_yaml(build_network_config(instance)),
    )
