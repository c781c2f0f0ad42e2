"""What every driver promises about optical media and about disks that leave the node."""

import io
import itertools

import pytest

from tests.nodes.driver_lab import POOL, MiB, disk_sizes, wait_until
from worker.nodes.base import Disk, GiB, Image, NotOnNode, Refused

numbers = itertools.count(1)


class FailingSource(io.BytesIO):
    """A source that fails after its last byte, as one does whose checksum is wrong."""

    def read(self, size=-1):
        if chunk := super().read(size):
            return chunk
        raise ConnectionError("not these bytes")


@pytest.fixture
def new_media(lab):
    """Return a function that uploads media no other test has."""
    names = []

    def upload(content=b"\0" * MiB, **fields):
        names.append(f"medium-{next(numbers)}.iso")
        return lab.node.upload_media(POOL, names[-1], io.BytesIO(content), len(content), **fields)

    yield upload
    for name in names:
        lab.node.delete_disk(POOL, name)


def test_media_are_uploaded_unchanged_and_can_be_replaced(lab, new_media):
    progress = []
    disk = new_media(progress=lambda *step: progress.append(step))
    assert disk == Disk(POOL, disk.name, MiB)
    assert progress[-1] == (MiB, MiB)
    assert disk_sizes(lab.node)[disk.name] == MiB
    assert lab.node.upload_media(POOL, disk.name, io.BytesIO(b"\0" * 2 * MiB), 2 * MiB).size == 2 * MiB
    assert disk_sizes(lab.node)[disk.name] == 2 * MiB


def test_interrupted_upload_of_media_leaves_nothing(node):
    with pytest.raises(ConnectionError):
        node.upload_media(POOL, "broken.iso", FailingSource(b"\0" * MiB), MiB)
    assert "broken.iso" not in disk_sizes(node)
    with pytest.raises(NotOnNode):
        node.upload_media("nowhere", "lost.iso", io.BytesIO(b"\0" * MiB), MiB)


def test_media_can_be_changed_while_machine_is_off(node, new_machine, new_media):
    machine, disk = new_machine(), new_media()
    for media in (disk, disk, new_media(), None, None):
        node.set_media(machine.id, "primary", media)
    node.set_media(machine.id, "secondary", disk)
    with pytest.raises(NotOnNode):
        node.set_media(machine.id, "primary", Disk(POOL, "never-put.iso", 1))
    with pytest.raises(NotOnNode):
        node.set_media("0199c0a8-0000-7000-8000-000000000000", "primary", disk)


def test_guest_sees_new_media_and_locked_drive_opens(lab, guest, new_media):
    def run_script(script):
        return lab.node.agent_run(guest.id, ["sh", "-c", script]).output

    first, second = new_media(b"first" + b"\0" * MiB), new_media(b"second" + b"\0" * MiB)
    if lab.node.spec.driver == "simulated":
        lab.node.set_media(guest.id, "primary", first)
        assert lab.node.get_loaded_media(guest.id, "primary") == first.name
        lab.node.set_media(guest.id, "primary", None)
        assert lab.node.get_loaded_media(guest.id, "primary") is None
        return
    read_start = "head -c 6 /dev/{} 2>/dev/null | tr -d '\\0'"
    _, primary, secondary = sorted(run_script("ls /sys/block | grep ^sr").split())
    for disk, text in ((first, "first"), (second, "second"), (None, ""), (first, "first")):
        lab.node.set_media(guest.id, "primary", disk)
        wait_until(lambda text=text: run_script(read_start.format(primary)) == text, 60)
    lab.node.set_media(guest.id, "secondary", second)
    wait_until(lambda: run_script(read_start.format(secondary)) == "second", 60)
    lab.node.agent_run(guest.id, ["sh", "-c", f"echo 1 > /proc/sys/dev/cdrom/lock; exec 9</dev/{primary}; sleep 1"])
    for slot in ("primary", "secondary"):
        lab.node.set_media(guest.id, slot, None)


def test_disk_copy_is_independent_and_readable(lab, new_disk, tmp_path):
    disk = new_disk(2 * GiB, lab.image)
    copy = Disk(POOL, "copied.qcow2", 2 * GiB)
    lab.node.copy_disk(disk, copy)
    assert disk_sizes(lab.node)["copied.qcow2"] == 2 * GiB
    path, progress = tmp_path / "copied.qcow2", []
    with path.open("wb") as target:
        lab.node.read_disk(copy, target, lambda *step: progress.append(step))
    size = path.stat().st_size
    assert progress[-1] == (size, size)
    header = path.read_bytes()[:32]
    assert header[:4] == b"QFI\xfb"
    assert int.from_bytes(header[8:16]) == 0, "it is based on another file"
    assert int.from_bytes(header[24:32]) == 2 * GiB
    lab.node.delete_disk(POOL, copy.name)
    image = Image("of-the-copy.qcow2", path, size)
    lab.node.put_image(POOL, image)
    again = Disk(POOL, "of-the-copy", 2 * GiB)
    lab.node.create_disk(again, image)
    with pytest.raises(Refused):
        lab.node.delete_image(POOL, image.name)
    lab.node.delete_disk(POOL, again.name)
    lab.node.delete_image(POOL, image.name)
    with pytest.raises(NotOnNode):
        lab.node.copy_disk(Disk(POOL, "never-made", GiB), Disk(POOL, "copy-of-nothing", GiB))
    assert "copy-of-nothing" not in disk_sizes(lab.node)
