"""What every driver promises about backups: consistent disks, increments, and writing a disk back."""

import contextlib
from collections import defaultdict
from pathlib import Path

import pytest

from tests.nodes.driver_lab import POOL, MiB, disk_sizes, numbers, run_program, write_file
from tests.support.rbs_datastore import MemorySnapshots
from tests.support.rbs_server import rbs_server  # noqa: F401  (fixture)
from worker.backups.backup import BackupRequest, backup_machine
from worker.backups.keys import RepositoryKey
from worker.backups.rbs.api import Server
from worker.backups.rbs.store import RbsStore
from worker.backups.repository import Repository
from worker.backups.restoring import StoredDisk, restore_disk
from worker.backups.targets import LocalTarget
from worker.nodes.base import Disk, Extent, NotOnNode, Power, Refused, make_backup_name, make_overlay_name
from worker.nodes.libvirt import backups


@pytest.fixture
def repository(tmp_path):
    repository = Repository.create(LocalTarget(tmp_path / "repository"), RepositoryKey.generate())
    yield repository
    repository.close()


def back_up(node, repository, machine, previous=None, progress=None, **options):
    point = f"point-{next(numbers)}"
    request = BackupRequest(point, machine.disks, machine.id, previous=previous, **options)
    return backup_machine(node, repository, request, progress)


def read_disk(node, disk):
    """Return the content of a disk that no machine uses."""
    node.begin_backup(None, [disk], "unused")
    content = SparseContent()
    with node.open_backup(None, disk) as reader:
        assert reader.size == disk.size
        reader.read(reader.list_extents(0, disk.size), content.write)
    node.end_backup(None, [(disk.pool, disk.name)])
    return content.list_used_blocks()


def read_point(repository, point):
    """Return the content of the point's only disk."""
    [disk] = repository.read_manifest(point).disks
    stored, content = StoredDisk(repository, disk), SparseContent()
    for extent, data in zip(stored.list_extents(), stored.read(), strict=True):
        assert len(data) == extent.length
        content.write(extent.offset, data)
    return content.list_used_blocks()


class SparseContent:
    """The content of a disk without the blocks of zeros: most disks are large and nearly empty."""

    BLOCK_BYTES = 64 * 1024

    def __init__(self):
        self.blocks = defaultdict(lambda: bytearray(self.BLOCK_BYTES))

    def write(self, offset, data):
        while data:
            number, start = divmod(offset, self.BLOCK_BYTES)
            part = data[: self.BLOCK_BYTES - start]
            self.blocks[number][start : start + len(part)] = part
            offset, data = offset + len(part), data[len(part) :]

    def list_used_blocks(self):
        return sorted((number, bytes(block)) for number, block in self.blocks.items() if any(block))


@pytest.fixture
def new_restored_disk(node):
    """Return a function that restores the only disk of a point to a new disk."""
    disks = []

    def restore(repository, point):
        manifest = repository.read_manifest(point)
        [entry] = manifest.disks
        disks.append(Disk(POOL, f"restored-{next(numbers)}", entry.size))
        restore_disk(node, repository, manifest, entry.name, disks[-1], lambda done, total: None)
        return disks[-1]

    yield restore
    for disk in disks:
        node.delete_disk(disk.pool, disk.name)


def test_running_machine_is_backed_up_in_increments(node, guest, repository, new_restored_disk):
    """Only the changes are read, and each point has the whole disk."""
    [disk] = guest.disks
    write_file(node, guest, "/root/one", "1")
    points = [back_up(node, repository, guest)]
    for text in ("2", "3"):
        write_file(node, guest, f"/root/file-{text}", text)
        points.append(back_up(node, repository, guest, points[-1]))
    full, *increments = points
    assert (full.disks[0].read_mode, full.disks[0].full_read_reason) == ("full", "first_backup")
    assert [(point.disks[0].read_mode, point.consistency) for point in increments] == [
        ("incremental", "filesystem")
    ] * 2
    assert all(0 < point.statistics.bytes_read < 8 * MiB for point in increments)
    images = [read_point(repository, point.point) for point in points]
    assert images[0] != images[1] != images[2] != images[0]
    for point, image in ((points[0], images[0]), (points[-1], images[-1])):
        restored = new_restored_disk(repository, point.point)
        assert disk_sizes(node)[restored.name] == disk.size
        assert read_disk(node, restored) == image
    node.delete_checkpoints(guest.id)


def test_broken_bitmap_requires_a_full_read(lab, node, new_machine, repository):
    machine = new_machine()
    node.start(machine.id)
    first = back_up(node, repository, machine)
    assert first.consistency == "crash"
    second = back_up(node, repository, machine, first)
    assert second.disks[0].read_mode == "incremental"
    lab.break_checkpoints(node, machine)
    node.start(machine.id)
    third = back_up(node, repository, machine, second)
    assert (third.disks[0].read_mode, third.disks[0].full_read_reason) == ("full", "broken_bitmap")
    fourth = back_up(node, repository, machine, third)
    assert fourth.disks[0].read_mode == "incremental"
    node.delete_checkpoints(machine.id)
    fifth = back_up(node, repository, machine, fourth)
    assert fifth.disks[0].full_read_reason == "no_checkpoint"
    node.create_snapshot(machine.id, "snapshot")
    node.revert_snapshot(machine.id, "snapshot")


def test_stopped_machine_and_volume_are_read_completely(node, new_machine, new_disk, repository, new_restored_disk):
    """Nothing records what changes in them."""
    machine, volume = new_machine(), new_disk()
    node.write_disk(volume, Pattern(volume.size))
    point = back_up(node, repository, machine)
    assert (point.consistency, point.checkpoint) == ("stopped", None)
    assert point.disks[0].full_read_reason == "first_backup"
    again = back_up(node, repository, machine, point)
    assert again.disks[0].full_read_reason == "stopped"
    point = backup_machine(node, repository, BackupRequest("volume", (volume,)))
    assert point.statistics.bytes_used > 0
    restored = new_restored_disk(repository, "volume")
    assert read_disk(node, restored) == read_point(repository, "volume") == read_disk(node, volume)
    assert make_backup_name(volume.name) not in disk_sizes(node)


def test_disks_are_backed_up_to_a_backup_server(node, new_machine, new_disk, rbs_server, new_restored_disk):
    """A machine in increments, and a volume that is restored."""
    machine, volume = new_machine(), new_disk()
    node.write_disk(volume, Pattern(volume.size))
    store = RbsStore(Server(**rbs_server.config), RepositoryKey.generate(), MemorySnapshots())
    with contextlib.closing(store):
        backup_machine(node, store, BackupRequest("volume", (volume,)))
        restored = new_restored_disk(store, "volume")
        assert read_disk(node, restored) == read_point(store, "volume") == read_disk(node, volume)
        node.start(machine.id)
        first = back_up(node, store, machine)
        second = back_up(node, store, machine, store.read_manifest(first.point))
    assert (second.disks[0].read_mode, second.parent) == ("incremental", first.point)
    assert len(rbs_server.datastore.snapshots) == 3


class Pattern:
    """Content of a disk: one block at the beginning, which also a simulated node can store."""

    def __init__(self, size):
        self.size = size

    def list_extents(self):
        yield Extent(0, 64 * 1024)

    def read(self):
        yield b'{"": "system"}'.ljust(64 * 1024, b"\0")


def test_machine_continues_from_its_stopped_point(node, new_machine, repository):
    """A point of the stopped machine does not end the increments."""
    machine = new_machine()
    node.start(machine.id)
    first = back_up(node, repository, machine)
    node.power_off(machine.id)
    second = back_up(node, repository, machine, first)
    assert second.checkpoint == first.checkpoint
    node.start(machine.id)
    assert back_up(node, repository, machine, second).disks[0].read_mode == "incremental"


def test_cancelled_backup_leaves_no_trace(node, new_machine, repository):
    class Cancelled(Exception):
        pass

    def cancel(done, total):
        raise Cancelled

    machine = new_machine()
    node.start(machine.id)
    first = back_up(node, repository, machine)
    with pytest.raises(Cancelled):
        back_up(node, repository, machine, first, cancel)
    assert repository.list_points() == [first.point]
    assert list(repository.target.list("leases")) == []
    assert back_up(node, repository, machine, first).disks[0].read_mode == "incremental"


def test_job_is_replaced_and_ended_repeatedly(node, new_machine):
    machine = new_machine()
    [disk] = machine.disks
    node.start(machine.id)
    for name in ("one", "two", "two"):  # the same name as a lost worker's
        assert node.begin_backup(machine.id, machine.disks, name).checkpoint == name
    with node.open_backup(machine.id, disk) as reader, node.open_backup(machine.id, disk) as other:
        assert reader.size == other.size == disk.size
    for _ in range(2):
        node.end_backup(machine.id, [(disk.pool, disk.name)])
    with pytest.raises(Refused):
        node.open_backup(machine.id, disk)
    for _ in range(2):
        node.delete_checkpoints(machine.id, ["two"])
    assert node.begin_backup(machine.id, machine.disks, "three", "one").full_read_reasons == {
        disk.name: "no_checkpoint"
    }
    assert node.begin_backup(machine.id, machine.disks, "four", "two").full_read_reasons == {disk.name: None}
    job = node.begin_backup(machine.id, machine.disks, "six", "four", fully_read=[disk.name])
    assert job.full_read_reasons == {disk.name: "requested"}
    node.end_backup(machine.id, [(disk.pool, disk.name)])
    with pytest.raises(NotOnNode):
        node.begin_backup(machine.id, [Disk(POOL, "missing", MiB)], "five")
    node.delete(machine.id)
    node.end_backup(machine.id, [(disk.pool, disk.name)])
    node.delete_checkpoints(machine.id)


def test_reverted_snapshot_invalidates_checkpoints(node, new_machine, repository):
    """A bitmap does not record what the revert changes."""
    machine = new_machine()
    node.start(machine.id)
    node.create_snapshot(machine.id, "before")
    first = back_up(node, repository, machine)
    node.create_snapshot(machine.id, "after")
    node.revert_snapshot(machine.id, "before")
    assert node.power(machine.id) is Power.off
    node.start(machine.id)
    second = back_up(node, repository, machine, first)
    assert second.disks[0].full_read_reason == "no_checkpoint"
    node.power_off(machine.id)
    node.create_snapshot(machine.id, "stopped")
    node.revert_snapshot(machine.id, "stopped")


def test_grown_disk_is_backed_up_in_increments(node, new_machine, repository):
    machine = new_machine()
    [disk] = machine.disks
    node.start(machine.id)
    first = back_up(node, repository, machine)
    larger = Disk(disk.pool, disk.name, 2 * disk.size)
    node.grow_disk(larger, machine.id)
    second = back_up(node, repository, machine, first)
    assert (second.disks[0].read_mode, second.disks[0].size) == ("incremental", larger.size)


def test_failed_write_leaves_no_disk(node):
    class Failing(Pattern):
        def read(self):
            raise ValueError("the content ends here")

    def fail(done, total):
        raise ValueError("cancelled")

    disk = Disk(POOL, f"failed-{next(numbers)}", 4 * MiB)
    for content, progress in ((Failing(disk.size), None), (Pattern(disk.size), fail)):
        with pytest.raises(ValueError, match=r"ends here|cancelled"):
            node.write_disk(disk, content, progress)
        assert disk.name not in disk_sizes(node)


WRITE_LOOP = "while :; do dd if=/dev/urandom of=/root/noise bs=64k count=40 conv=fsync; rm -f /root/noise; done"
INCREMENTS, COMPARED_POINTS = 10, (0, 2, 3, 10)


@pytest.mark.guest
def test_writing_guest_is_backed_up_as_at_one_moment(libvirt_lab, disposable_guest, repository, tmp_path, monkeypatch):
    """Full read and ten increments of a guest that writes meanwhile, one of them through an overlay, byte for byte."""
    node, machine, start_job = libvirt_lab.node, disposable_guest, backups.start_job
    [disk] = machine.disks
    points, expected = [], {}

    def start_job_and_copy(domain, copies, *arguments):
        """Start a slow job while the guest is suspended, and copy the disk before the guest goes on."""
        if len(points) not in COMPARED_POINTS:
            return start_job(domain, copies, *arguments)
        domain.suspend()
        consistency = start_job(domain, copies, *arguments)
        overlay = Path(libvirt_lab.pool_path) / make_overlay_name(disk.name)
        source = overlay if overlay.exists() else overlay.with_name(disk.name)
        expected[len(points)] = tmp_path / f"expected-{len(points)}.raw"
        run_program("qemu-img", "convert", "-U", "-O", "raw", source, expected[len(points)])
        domain.resume()
        return consistency

    monkeypatch.setattr(backups, "start_job", start_job_and_copy)
    node.agent_run(machine.id, ["sh", "-c", f"({WRITE_LOOP}) >/dev/null 2>&1 &"])
    points.append(back_up(node, repository, machine, bytes_per_second=96 * MiB))
    points.append(back_up(node, repository, machine, points[-1]))
    node.create_overlays(machine.id, machine.disks)
    points.append(back_up(node, repository, machine, points[-1]))
    node.commit_overlay(machine.id, disk.pool, disk.name)
    while len(points) <= INCREMENTS:
        points.append(back_up(node, repository, machine, points[-1]))
    assert [point.disks[0].full_read_reason for point in points] == ["first_backup", *[None] * INCREMENTS]
    assert tuple(expected) == COMPARED_POINTS
    for point, raw in ((points[number], raw) for number, raw in expected.items()):
        target = Disk(POOL, f"restored-{point.point}", disk.size)
        restore_disk(node, repository, point, disk.name, target)
        path = Path(libvirt_lab.pool_path) / target.name
        run_program("qemu-img", "check", "-f", "qcow2", path)
        run_program("qemu-img", "compare", "-f", "qcow2", "-F", "raw", path, raw)
        node.delete_disk(target.pool, target.name)
