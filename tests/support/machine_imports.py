"""A machine on the node that the panel did not create, its discovery and its import."""

import pytest

from panel.core.db import session
from panel.models import Instance, Task
from worker.nodes.base import Disk, GiB, Image, Machine, Nic

UNMANAGED_ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"

MAC, IP = "52:54:00:aa:bb:cc", "10.9.0.77"


@pytest.fixture
def path(cast):
    return f"/api/v1/hypervisor/{cast.node.id}/orphan"


@pytest.fixture
def unmanaged_machine(node, cast, app):
    """A machine with a system and a data disk that the panel did not create."""
    file = app.extensions["config"].data_dir / "images" / "tiny.qcow2"
    image = Image("theirs.qcow2", file, 64)
    node.put_image("default", image)
    node.create_disk(Disk("default", "old-web.qcow2", 5 * GiB + 1), image)
    node.create_disk(Disk("default", "old-data.qcow2", 7 * GiB))
    disks = tuple(Disk("default", name, 0) for name in ("old-web.qcow2", "old-data.qcow2"))
    machine = Machine(
        UNMANAGED_ID, "old-web", 1, 300, disks, (Nic(MAC, "br0", (IP, "fe80::1")),), vnc_password="theirs"
    )
    node.define(machine)
    return machine


@pytest.fixture
def discover(api_as, path, run_tasks):
    def run_discovery():
        answer = api_as("admin", "POST", f"{path}/discover")
        assert answer.status_code == 200, answer.text
        run_tasks()
        return api_as("admin", "GET", f"{path}/discoveries/latest").json["data"]

    return run_discovery


@pytest.fixture
def discovered_machine(unmanaged_machine, node, discover):
    """The machine, discovered once while running, so that its address is known, and again when off."""
    node.start(UNMANAGED_ID)
    discover()
    node.power_off(UNMANAGED_ID)
    return discover()


@pytest.fixture
def import_machine(api_as, path, cast):
    def request_import(name="old-web", **body):
        request_body = {"user_id": cast.owner.id, "plan_id": cast.plan.id, **body}
        return api_as("admin", "POST", f"{path}/import/{name}", json=request_body)

    return request_import


def wait_for_task(answer, work):
    assert answer.status_code == 200, answer.text
    work()
    return session.get(Task, answer.json["data"]["task_id"])


def load_imported_instance():
    return session.get(Instance, UNMANAGED_ID, populate_existing=True)
