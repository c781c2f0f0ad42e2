"""Deletion of hypervisors, and forced removal of those that are lost."""

import pytest

from panel.core.db import session
from panel.models import Address, Event, Hypervisor, Instance, MeteringRecord, Migration, Storage, Task, Volume
from tests.support.running_machine import machine  # noqa: F401  (fixtures)
from tests.support.volumes import billing_enabled, call_storage_api, plans, volume, volume_body  # noqa: F401  (fixtures)


@pytest.fixture
def path(cast):
    return f"/api/v1/hypervisor/{cast.node.id}"


@pytest.fixture
def make_node_unreachable(cast):
    """Return a function that marks the node as down and returns its row."""

    def set_node_down():
        cast.node.status = "down"
        session.commit()
        return cast.node

    return set_node_down


def test_hypervisor_with_volumes_is_not_deleted(api_as, path, volume, run_tasks, call_storage_api):
    refused = api_as("admin", "DELETE", path)
    assert (refused.status_code, refused.json["message"]) == (
        409,
        "Volumes are stored on this hypervisor. Delete them first.",
    )
    call_storage_api("DELETE", f"volume/{volume.id}")
    run_tasks()
    assert api_as("admin", "DELETE", path).status_code == 200


def test_force_removal_deletes_all_resources(
    api_as, path, make_node_unreachable, machine, volume, call_storage_api, run_tasks
):
    ids = machine.id, volume.id
    assert call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id).status_code == 200
    run_tasks()
    call_storage_api("POST", f"volume/{volume.id}/snapshot", name="a")
    run_tasks()
    body = {"name": make_node_unreachable().name}
    waiting = api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff").json["task_id"]
    assert api_as("admin", "DELETE", f"{path}/force", json=body).status_code == 200
    session.expire_all()
    assert session.query(Hypervisor).count() == session.query(Storage).count() == 0
    assert (session.get(Instance, ids[0]), session.get(Volume, ids[1])) == (None, None)
    assert session.query(Address).filter(Address.interface_id.is_not(None)).count() == 0
    assert session.query(MeteringRecord).filter(MeteringRecord.ended_at.is_(None)).count() == 0
    assert session.query(Event).filter_by(kind="instance.deleted", resource_id=ids[0]).count() == 1
    task = session.get(Task, waiting)
    assert (task.status, task.error) == ("failed", "The hypervisor was removed by force.")
    assert api_as("owner", "GET", f"/api/instance/{ids[0]}").status_code == 404
    assert api_as("owner", "GET", f"/api/instance/{ids[0]}/task/{waiting}").json["task"]["status"] == "failed"
    run_tasks()


def test_force_removal_is_refused_while_reachable_or_migrating(api_as, path, make_node_unreachable, cast, machine):
    def force_remove(**body):
        return api_as("admin", "DELETE", f"{path}/force", json=body)

    refused = force_remove(name=cast.node.name)
    assert (refused.status_code, refused.json["reason"]) == (409, "hypervisor_up")
    name = make_node_unreachable().name
    for body in ({}, {"name": "other"}, {"name": ""}):
        refused = force_remove(**body)
        assert (refused.status_code, list(refused.json["errors"])) == (422, ["name"]), body
    moving = {"instance_id": machine.id, "instance_name": machine.name, "source_id": cast.node.id}
    session.add(Migration(**moving, status="active", kind="cold"))
    session.commit()
    refused = force_remove(name=name)
    assert (refused.status_code, refused.json["reason"]) == (409, "task_running")
    assert session.get(Instance, machine.id)


def test_force_removal_page_requires_typed_name(browser_as, make_node_unreachable, cast, machine):
    browser, address = browser_as("admin"), f"/admin/hypervisors/{cast.node.id}"
    assert "Force remove" not in browser.get(f"{address}/edit").text
    name = make_node_unreachable().name
    page = browser.get(f"{address}/edit").text
    assert "removes 1 instance and 0 volumes from the panel" in page
    assert browser.post(f"{address}/give-up", data={"typed": "other"}).status_code == 422
    assert session.get(Instance, machine.id)
    assert browser.post(f"{address}/give-up", data={"typed": name}).status_code == 303
    session.expire_all()
    assert session.query(Instance).count() == session.query(Hypervisor).count() == 0
