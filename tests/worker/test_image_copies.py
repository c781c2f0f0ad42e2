"""The sweep removes copies of images from nodes when they are not used any more."""

import pytest

from panel.core import context
from panel.core.db import session
from panel.models import Image, ImageCopy
from panel.services import images, instances
from worker.nodes import base
from worker.sync import image_copies

MISSING_IMAGE_FILE = "ef" * 16 + ".qcow2"


@pytest.fixture
def unused_copy(cast, node, tmp_path):
    """A copy on the node whose image was deleted."""
    restored_image_file = tmp_path / "stray"
    restored_image_file.write_bytes(b"QFI\xfb" + bytes(60))
    node.put_image("default", base.Image(MISSING_IMAGE_FILE, restored_image_file, 64))


@pytest.fixture(autouse=True)
def restored_image_file(cast):
    """Restore the panel's file of the image after tests that delete it."""
    path = context.current().config.data_dir / "images" / cast.image.filename
    content = path.read_bytes()
    yield
    path.write_bytes(content)


@pytest.fixture
def deployed_instance(cast, node, run_tasks):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    return instance


def run_sweep(run_tasks, node):
    image_copies.sweep_all_nodes()
    run_tasks()
    return {disk.name for disk in node.disks("default")}


def build_copy_name(image):
    return f"{image.sha256[:32]}.{image.format}"


def test_sweep_removes_copy_without_image(cast, node, run_tasks, unused_copy, deployed_instance):
    names = run_sweep(run_tasks, node)
    assert MISSING_IMAGE_FILE not in names
    assert build_copy_name(cast.image) in names
    assert {deployed_instance.disks[0].name, f"{deployed_instance.name}-seed.iso"} <= names


def test_sweep_keeps_copy_used_by_disks(cast, node, run_tasks, deployed_instance):
    copy = build_copy_name(cast.image)
    images.delete(session.get(Image, cast.image.id), actor="test")
    session.commit()
    run_tasks()
    assert copy in run_sweep(run_tasks, node)
    instances.destroy(deployed_instance, actor="test")
    session.commit()
    run_tasks()
    assert copy not in run_sweep(run_tasks, node)


def test_sweep_removes_copy_after_failed_delete(cast, node, run_tasks, deployed_instance):
    instances.destroy(deployed_instance, actor="test")
    session.commit()
    run_tasks()
    copy = build_copy_name(cast.image)
    node.fault("delete_image", "refuse", count=1)
    images.delete(session.get(Image, cast.image.id), actor="test")
    session.commit()
    run_tasks()
    assert session.query(ImageCopy).count() == 0
    assert copy in {disk.name for disk in node.disks("default")}
    assert copy not in run_sweep(run_tasks, node)


def test_sweep_of_silent_node_removes_nothing(cast, node, run_tasks, unused_copy):
    node.fault("disks", "silent", count=1)
    image_copies.sweep_node(cast.node.id)
    assert MISSING_IMAGE_FILE in {disk.name for disk in node.disks("default")}
    assert MISSING_IMAGE_FILE not in run_sweep(run_tasks, node)
