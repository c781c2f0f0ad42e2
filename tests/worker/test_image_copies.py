"""Copies of images that nobody needs go from the nodes."""

import pytest

from panel.core import context
from panel.core.db import session
from panel.models import Image, ImageCopy
from panel.services import images, instances
from worker.nodes import base
from worker.sync import image_copies

MISSING_IMAGE_FILE = "ef" * 16 + ".qcow2"


@pytest.fixture
def stray(cast, node, tmp_path):
    """A copy whose image is gone."""
    file = tmp_path / "stray"
    file.write_bytes(b"QFI\xfb" + bytes(60))
    node.put_image("default", base.Image(MISSING_IMAGE_FILE, file, 64))


@pytest.fixture(autouse=True)
def file(cast):
    """The panel's own file of the image outlives the tests that remove it."""
    path = context.current().config.data_dir / "images" / cast.image.filename
    content = path.read_bytes()
    yield
    path.write_bytes(content)


@pytest.fixture
def deployed(cast, node, run_tasks):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    return instance


def run_sweep(work, node):
    image_copies.sweep_all_nodes()
    work()
    return {disk.name for disk in node.disks("default")}


def copy_of(image):
    return f"{image.sha256[:32]}.{image.format}"


def test_a_copy_of_no_image_goes_and_the_others_stay(cast, node, run_tasks, stray, deployed):
    left = run_sweep(run_tasks, node)
    assert MISSING_IMAGE_FILE not in left
    assert copy_of(cast.image) in left
    assert {deployed.disks[0].name, f"{deployed.name}-seed.iso"} <= left


def test_a_copy_that_disks_are_based_on_stays_until_they_are_gone(cast, node, run_tasks, deployed):
    copy = copy_of(cast.image)
    images.delete(session.get(Image, cast.image.id), actor="test")
    session.commit()
    run_tasks()
    assert copy in run_sweep(run_tasks, node)
    instances.destroy(deployed, actor="test")
    session.commit()
    run_tasks()
    assert copy not in run_sweep(run_tasks, node)


def test_a_node_that_was_away_when_its_image_went_is_found_later(cast, node, run_tasks, deployed):
    instances.destroy(deployed, actor="test")
    session.commit()
    run_tasks()
    copy = copy_of(cast.image)
    node.fault("delete_image", "refuse", count=1)
    images.delete(session.get(Image, cast.image.id), actor="test")
    session.commit()
    run_tasks()
    assert session.query(ImageCopy).count() == 0
    assert copy in {disk.name for disk in node.disks("default")}
    assert copy not in run_sweep(run_tasks, node)


def test_a_node_that_does_not_answer_loses_nothing(cast, node, run_tasks, stray):
    node.fault("disks", "silent", count=1)
    image_copies.sweep_node(cast.node.id)
    assert MISSING_IMAGE_FILE in {disk.name for disk in node.disks("default")}
    assert MISSING_IMAGE_FILE not in run_sweep(run_tasks, node)
