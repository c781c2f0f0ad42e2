"""Capacity of a simulated node."""

from dataclasses import replace

import pytest

from tests.nodes.simulated.machine_status import get_status
from worker.nodes.base import Disk, GiB, Image, NoCapacity, NotOnNode, Power, Seed


def read_free_bytes(node):
    return node.capabilities().pools[0].free


def test_free_space_excludes_disks_images_and_seed_disks(node, image):
    empty = read_free_bytes(node)
    disk = Disk("pool", "disk", 10 * GiB)
    node.create_disk(disk, image)
    seed = node.create_seed("pool", "seed", Seed("{}", "#cloud-config\n{}", "{}"))
    assert read_free_bytes(node) == empty - disk.size - seed.size
    node.grow_disk(replace(disk, size=11 * GiB))
    assert read_free_bytes(node) == empty - 11 * GiB - seed.size
    node.create_disk(disk)
    node.delete_disk("pool", seed.name)
    assert read_free_bytes(node) == empty - disk.size
    node.delete_disk("pool", disk.name)
    node.delete_image("pool", image.name)
    assert read_free_bytes(node) == empty + image.size == 100 * GiB


def test_full_node_refuses_disks(node, image):
    disk = Disk("pool", "disk", read_free_bytes(node))
    node.create_disk(disk)
    assert read_free_bytes(node) == 0
    for call in (
        lambda: node.create_disk(Disk("pool", "another", 1)),
        lambda: node.grow_disk(replace(disk, size=disk.size + 1)),
        lambda: node.put_image("pool", replace(image, name="another")),
        lambda: node.create_seed("pool", "another", Seed("{}", "#cloud-config\n{}", "{}")),
    ):
        with pytest.raises(NoCapacity):
            call()
    assert {disk.name for disk in node.disks("pool")} == {"disk", "system"}
    node.create_disk(replace(disk, size=disk.size - 5))
    assert read_free_bytes(node) == 5


def test_machines_share_memory_of_node(node, define_machine):
    large, small = define_machine("large", memory_mb=3500), define_machine("small", memory_mb=597)
    node.start(large.id)
    with pytest.raises(NoCapacity):
        node.start(small.id)
    assert get_status(node, small).power == Power.off
    node.power_off(large.id)
    node.start(small.id)


def test_machine_without_base_image_does_not_start(node, define_machine, image):
    machine = define_machine()
    node.delete_disk("pool", image.name)  # as somebody on the node would: `delete_image` refuses
    with pytest.raises(NotOnNode):
        node.start(machine.id)


def test_image_without_file_is_not_uploaded(node, tmp_path):
    image = Image("gone", tmp_path / "gone", 5)
    with pytest.raises(NotOnNode):
        node.put_image("pool", image)
    assert not node.has_image("pool", image)
