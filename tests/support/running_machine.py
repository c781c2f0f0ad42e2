"""A running machine, a file in its guest, and a second disk."""

import pytest

from panel.core.db import session
from panel.models import Disk
from worker.nodes import base


@pytest.fixture
def machine(api_as, cast, run_tasks):
    """A running instance of the owner."""
    instance = cast.instance(hostname="web.example.com")
    api_as(
        "owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id, "password": "x" * 9}
    )
    run_tasks()
    assert instance.state == "running"
    return instance


class GuestFile:
    def __init__(self, node, instance):
        self.node, self.id = node, instance.id

    def write(self, text):
        assert self.node.agent_run(self.id, ["tee", "/file"], text).exit_code == 0

    def read(self):
        return self.node.agent_run(self.id, ["cat", "/file"]).output


@pytest.fixture
def guest(node, machine):
    return GuestFile(node, machine)


@pytest.fixture
def second_disk(node, machine, run_tasks):
    """An additional disk of the machine, which it gets at its next start."""
    first = machine.disks[0]
    disk = Disk(instance=machine, storage_id=first.storage_id, name=f"{machine.name}-1.qcow2", position=1, size=1)
    session.add(disk)
    session.commit()
    node.create_disk(base.Disk(first.storage.name, disk.name, base.GiB))
    return disk
