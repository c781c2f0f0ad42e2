"""What every driver promises of optical media and of disks that leave the node."""

import io
import itertools

import pytest

from tests.nodes.test_contract import (  # noqa: F401  (fixtures)
    POOL,
    GiB,
    MiB,
    booted,
    disk_sizes,
    guest,
    lab,
    libvirt_lab,
    new_disk,
    new_machine,
    node,
    simulated_lab,
    wait_until,
)
from worker.nodes.base import Disk, Image, NotOnNode, Refused

numbers = itertools.count(1)


class Bytes(io.BytesIO):
    """A source that fails when it has given its last byte, as one does whose checksum is wrong."""

    def __init__(self, content, wrong=False):
        super().__init__(content)
        self.wrong = wrong

    def read(self, size=-1):
        portion = super().read(size)
        if not portion and self.wrong:
            raise ConnectionError("not these bytes")
        return portion


@pytest.fixture
def medium(lab):
    """Puts media that no other test has."""
    made = []

    def put(content=b"\0" * MiB, **more):
        name = f"medium-{next(numbers)}.iso"
        made.append(name)
        return lab.node.upload_media(POOL, name, Bytes(content), len(content), **more)

    yield put
    for name in made:
        lab.node.delete_disk(POOL, name)


def test_a_medium_is_put_as_it_is_and_replaced(lab, medium):
    moved = []
    disk = medium(progress=lambda *progress: moved.append(progress))
    assert disk == Disk(POOL, disk.name, MiB)
    assert moved[-1] == (MiB, MiB)
    assert disk_sizes(lab.node)[disk.name] == MiB
    assert lab.node.upload_media(POOL, disk.name, Bytes(b"\0" * 2 * MiB), 2 * MiB).size == 2 * MiB
    assert disk_sizes(lab.node)[disk.name] == 2 * MiB


def test_of_a_medium_that_breaks_off_nothing_is_left(node):
    with pytest.raises(ConnectionError):
        node.upload_media(POOL, "broken.iso", Bytes(b"\0" * MiB, wrong=True), MiB)
    assert "broken.iso" not in disk_sizes(node)
    with pytest.raises(NotOnNode):
        node.upload_media("nowhere", "lost.iso", Bytes(b"\0" * MiB), MiB)


def test_a_medium_is_changed_in_a_machine_that_is_off(node, new_machine, medium):
    machine, disk = new_machine(), medium()
    for wanted in (disk, disk, medium(), None, None):
        node.set_media(machine.id, "primary", wanted)
    node.set_media(machine.id, "secondary", disk)
    with pytest.raises(NotOnNode):
        node.set_media(machine.id, "primary", Disk(POOL, "never-put.iso", 1))
    with pytest.raises(NotOnNode):
        node.set_media("0199c0a8-0000-7000-8000-000000000000", "primary", disk)


def test_a_guest_sees_the_medium_at_once_and_a_locked_tray_opens(lab, guest, medium):
    def inside(script):
        return lab.node.agent_run(guest.id, ["sh", "-c", script]).output

    first, second = medium(b"first" + b"\0" * MiB), medium(b"second" + b"\0" * MiB)
    if lab.node.spec.driver == "simulated":
        lab.node.set_media(guest.id, "primary", first)
        assert lab.node.loaded_media(guest.id, "primary") == first.name
        lab.node.set_media(guest.id, "primary", None)
        assert lab.node.loaded_media(guest.id, "primary") is None
        return
    beginning = "head -c 6 /dev/{} 2>/dev/null | tr -d '\\0'"
    drives = inside("ls /sys/block | grep ^sr").split()
    _, primary, secondary = sorted(drives)
    for disk, words in ((first, "first"), (second, "second"), (None, ""), (first, "first")):
        lab.node.set_media(guest.id, "primary", disk)
        wait_until(lambda words=words: inside(beginning.format(primary)) == words, 60)
    lab.node.set_media(guest.id, "secondary", second)
    wait_until(lambda: inside(beginning.format(secondary)) == "second", 60)
    lab.node.agent_run(guest.id, ["sh", "-c", f"echo 1 > /proc/sys/dev/cdrom/lock; exec 9</dev/{primary}; sleep 1"])
    for slot in ("primary", "secondary"):
        lab.node.set_media(guest.id, slot, None)


def test_a_copy_of_a_disk_stands_alone_and_can_be_read(lab, new_disk, tmp_path):
    disk = new_disk(2 * GiB, lab.image)
    copy = Disk(POOL, "copied.qcow2", 2 * GiB)
    lab.node.copy_disk(disk, copy)
    assert disk_sizes(lab.node)["copied.qcow2"] == 2 * GiB
    path, moved = tmp_path / "copied.qcow2", []
    with path.open("wb") as target:
        lab.node.read_disk(copy, target, lambda *progress: moved.append(progress))
    size = path.stat().st_size
    assert moved[-1] == (size, size)
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
