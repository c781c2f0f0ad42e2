"""Tests of backups: copies of the disks are started as a machine without a network, which is removed afterwards."""

import contextlib
import secrets
import time

from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Instance
from panel.services import backup_restore_tests, instance_backups
from worker.backups.firmware_states import unpack_state
from worker.backups.restoring import restore_disk
from worker.engine.registry import periodic, task_handler
from worker.engine.runner import roll_back
from worker.nodes import base
from worker.nodes.base import AgentUnavailable, Machine, Refused
from worker.tasks.backup_reading import open_backup
from worker.tasks.backup_repositories import StorageFailed, translated_errors

AGENT_SECONDS, SCREEN_SECONDS = 600, 180
"""How long to wait for a guest whose agent answered during the backup, and for the screen of any other."""
POLL_SECONDS = 3
MAX_CPU_CORES = 2
"""Processors of the machine, so that a test does not slow others down."""
TEST_INTERVAL_SECONDS = 600


def on_test_failed(row, error):
    backup_restore_tests.record_aborted(row.resource_id, error)


def get_test(work):
    row = backup_restore_tests.find_by_id(work.task.resource_id)
    if row is None:
        raise NotFound(message("The test was deleted in the meantime."))
    return row


@task_handler("backup_restore_test", on_failure=on_test_failed)
def test_restore(work):
    """Restore the disks beside everything else, start them, and record what the guest did. A backup that cannot be
    restored fails the test; a node that fails aborts it."""
    row = get_test(work)
    backup = instance_backups.find_by_id(row.backup_id)
    instance = session.get(Instance, row.instance_id)
    if backup is None or instance is None:
        raise NotFound(message("The backup or its instance was deleted in the meantime."))
    expects_agent = backup.consistency == "filesystem"
    disks = list_disks(row, backup)
    machine = build_machine(row, instance, backup, tuple(disks.values()))
    try:
        manifest = write_disks(work, backup, disks)
    except (StorageFailed, Invalid) as error:
        roll_back(work)
        return backup_restore_tests.record_result(get_test(work), "failed", error=error.message)
    work.step(message("Starting the machine"), 70)
    work.undo("delete", machine.id)
    work.node.define(machine)
    work.node.write_firmware_state(machine.id, unpack_state(manifest.firmware))
    work.node.start(machine.id)
    work.step(message("Waiting for the guest"), 80)
    evidence, seconds, screenshot = watch_guest(work, machine.id, expects_agent)
    work.step(message("Removing the machine"), 95)
    roll_back(work)
    facts = {"evidence": evidence, "boot_seconds": seconds, "screenshot": screenshot}
    if evidence is None:
        sentence = (
            message("The guest agent did not answer.") if expects_agent else message("The screen did not change.")
        )
        return backup_restore_tests.record_result(get_test(work), "failed", error=sentence, **facts)
    return backup_restore_tests.record_result(get_test(work), "passed", **facts)


def list_disks(row, backup):
    """Return the copies, by the name of the stored disk."""
    archives = sorted(backup.disks, key=lambda archive: archive["position"])
    return {
        archive["name"]: base.Disk(row.storage.name, f"{row.node_name}-{number}.qcow2", archive["size"])
        for number, archive in enumerate(archives)
    }


def build_machine(row, instance, backup, disks):
    """Return the instance's machine with these disks, without a network and media."""
    return Machine(
        id=row.id,
        name=row.node_name,
        cpu_cores=min(instance.cpu_cores, MAX_CPU_CORES),
        memory_mb=instance.ram,
        disks=disks,
        vnc=True,
        vnc_password=secrets.token_hex(4),
        tpm=instance.tpm_enabled,
        secure_boot=backup.secure_boot_enabled,
    )


def write_disks(work, backup, disks):
    """Write the stored disks, and return the manifest of the backup."""
    work.step(message("Connecting to the storage"), 5)
    with open_backup(backup) as (repository, manifest):
        for stored_name, disk in disks.items():
            work.undo("delete_disk", disk.pool, disk.name)
            work.step(message("Copying the disk"), 10)
            with translated_errors():
                restore_disk(work.node, repository, manifest, stored_name, disk, work.report_progress)
    return manifest


def watch_guest(work, machine_id, expects_agent):
    """Wait until the guest shows that it runs. Return the evidence or None, after how many seconds, and the screen."""
    started_at = time.monotonic()
    first = screen = read_screen(work, machine_id)
    evidence = None
    while evidence is None and time.monotonic() - started_at < (AGENT_SECONDS if expects_agent else SCREEN_SECONDS):
        time.sleep(POLL_SECONDS)
        work.check()
        with contextlib.suppress(AgentUnavailable):
            work.node.agent_ping(machine_id)
            evidence = "agent"
        screen = read_screen(work, machine_id) or screen
        if not expects_agent and first and screen != first:
            evidence = evidence or "screen"
    return evidence, round(time.monotonic() - started_at), screen


def read_screen(work, machine_id):
    with contextlib.suppress(Refused):
        return work.node.screenshot(machine_id)
    return None


@periodic(seconds=TEST_INTERVAL_SECONDS)
def start_due():
    """Request the next test, and delete old results."""
    backup_restore_tests.start_due()
    backup_restore_tests.delete_old()
    session.commit()
