"""Faults of the simulated node at each call of a backup and of a restore."""

import uuid

import pytest

from worker.backups.backup import BackupRequest, backup_machine
from worker.backups.restoring import restore_disk
from worker.nodes import load_driver
from worker.nodes.base import Disk, Image, Machine, NodeError, NodeSpec

MiB = 1024**2
CALLS = ("begin_backup", "open_backup", "end_backup", "delete_checkpoints")


@pytest.fixture
def node(tmp_path):
    node = load_driver("simulated")(NodeSpec("node", "node", "simulated", "simulated://?deadline=0.01"), tmp_path)
    node.prepare_pool("pool", "/pool")
    yield node
    node.close()


@pytest.fixture
def machine(node, tmp_path):
    file = tmp_path / "image"
    file.write_bytes(b"QFI\xfb" + bytes(20) + (8 * MiB).to_bytes(8, "big"))
    image = Image("image", file, 32)
    node.put_image("pool", image)
    disk = Disk("pool", "disk", 8 * MiB)
    node.create_disk(disk, image)
    machine = Machine(str(uuid.uuid4()), "machine", 1, 64, (disk,))
    node.define(machine)
    node.start(machine.id)
    write(node, machine, "first")
    return machine


def write(node, machine, text):
    node.agent_run(machine.id, ["tee", "/root/file"], stdin=text)


def read(node, machine):
    return node.agent_run(machine.id, ["cat", "/root/file"]).output


def back_up(node, repository, machine, point, previous=None):
    return backup_machine(node, repository, BackupRequest(point, machine.disks, machine.id, previous=previous))


def restore(node, repository, machine, manifest):
    """Restore the disk in place, as a task does: new disk, switch, old disk last."""
    [old] = machine.disks
    disk = Disk("pool", f"disk-of-{manifest.point}", old.size)
    restore_disk(node, repository, manifest, manifest.disks[0].name, disk)
    node.power_off(machine.id)
    restored = Machine(machine.id, machine.name, 1, 64, (disk,))
    node.define(restored)
    node.delete_checkpoints(machine.id)
    node.delete_disk(old.pool, old.name)
    node.start(machine.id)
    return restored


def test_simulated_machine_is_restored_with_its_files(node, machine, repository):
    full = back_up(node, repository, machine, "full")
    write(node, machine, "second")
    increment = back_up(node, repository, machine, "increment", full)
    assert increment.disks[0].read_mode == "incremental"
    write(node, machine, "third")
    for manifest, text in ((full, "first"), (increment, "second")):
        machine = restore(node, repository, machine, manifest)
        assert read(node, machine) == text


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize("call", CALLS)
def test_backup_survives_fault_at_every_node_call(node, machine, repository, call, kind):
    """A complete point can be restored; after a failure the next backup is right."""
    full = back_up(node, repository, machine, "full")
    write(node, machine, "second")
    node.fault(call, kind, count=2)
    manifest = None
    try:
        manifest = back_up(node, repository, machine, "with-fault", full)
    except NodeError:
        assert call in ("begin_backup", "open_backup")
    node.clear()
    assert set(repository.list_points()) == {"full"} | ({"with-fault"} if manifest else set())
    write(node, machine, "third")
    last = back_up(node, repository, machine, "last", manifest or full)
    write(node, machine, "fourth")
    assert read(node, restore(node, repository, machine, last)) == "third"
    assert len(node.state.rows("SELECT * FROM backups")) == 0


def test_fault_while_a_disk_is_read_fails_the_backup(node, machine, repository):
    full = back_up(node, repository, machine, "full")
    write(node, machine, "second")
    node.begin_backup(machine.id, machine.disks, "direct", full.checkpoint)
    with node.open_backup(machine.id, machine.disks[0]) as reader:
        node.fault("open_backup", "silent", count=1)
        with pytest.raises(NodeError):
            reader.read(reader.list_extents(0, reader.size), lambda offset, data: None)


@pytest.mark.parametrize("kind", ["refuse", "silent", "full"])
def test_failed_restore_leaves_the_machine_as_it_was(node, machine, repository, kind):
    full = back_up(node, repository, machine, "full")
    write(node, machine, "second")
    node.fault("write_disk", kind, count=1)
    with pytest.raises(NodeError):
        restore(node, repository, machine, full)
    assert read(node, machine) == "second"
    assert {disk.name for disk in node.disks("pool")} == {"image", "disk"}
    assert read(node, restore(node, repository, machine, full)) == "first"
