"""Restoring backups in place: refusals, faults at every call, and images of backups."""

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Image, InstanceBackup, Task
from panel.services.media import image_files
from panel.workflows import reachability
from tests.support.worker_faults import requeue_to_new_worker
from worker.nodes.base import Power, Refused
from worker.nodes.simulated import SimulatedNode

CHANGING_CALLS = (
    "write_disk",
    "copy_media",
    "delete_checkpoints",
    "power_off",
    "define",
    "start",
    "delete_disk",
)


@pytest.fixture
def restore(api_as, path, run_tasks):
    """Return a function that restores a backup and returns the task."""

    def request(backup, *, run=True, **body):
        answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore", json=body)
        assert answer.status_code == 200, answer.text
        if run:
            run_tasks()
        return session.get(Task, answer.json["task_id"], populate_existing=True)

    return request


@pytest.fixture
def refuse(api_as, path):
    """Return a function that tries to restore a backup and returns status and reason."""

    def request(backup, path=path, **body):
        answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore", json=body)
        assert session.query(Task).filter_by(kind="backup_restore").count() == 0
        return answer.status_code, answer.json.get("reason")

    return request


def list_disks(node):
    return {(row["pool"], row["name"]) for row in node.state.rows("SELECT pool, name FROM disks")}


def test_restore_returns_file(api_as, back_up, restore, guest, machine, node, path):
    """BAK-38, INS-30"""
    guest.write("before")
    backup = back_up()
    before = list_disks(node)
    guest.write("after")
    task = restore(backup)
    assert (task.status, task.error) == ("completed", None)
    assert (guest.read(), machine.state, node.power(machine.id)) == ("before", "running", Power.on)
    assert len(list_disks(node)) == len(before), "the earlier disk and first-boot medium are gone"
    for caller, prefix in (("owner", "/api"), ("admin", "/api/v1")):
        row = api_as(caller, "GET", f"{prefix}/task/{task.id}").json
        row = row.get("task") or row["data"]
        assert (row["source_backup_id"], row["source_backup_at"]) == (backup["id"], backup["created_at"])
    guest.write("later")
    assert back_up(backup_type="incremental")["backup_type"] == "full"
    assert back_up(backup_type="incremental")["backup_type"] == "incremental"
    restore(backup)
    assert guest.read() == "before"


def test_restore_of_stopped_instance_leaves_it_off(api_as, back_up, restore, guest, machine, node, run_tasks):
    guest.write("before")
    backup = back_up()
    guest.write("after")
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    assert restore(backup).status == "completed"
    assert node.power(machine.id) is Power.off
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/start")
    run_tasks()
    assert guest.read() == "before"


def test_one_disk_is_restored(back_up, restore, machine, second_disk, node, guest):
    guest.write("before")
    backup = back_up()
    guest.write("after")
    names = {disk.id: disk.name for disk in machine.disks}
    restore(backup, target_disk_id=second_disk.id)
    assert guest.read() == "after"
    assert machine.disks[0].name == names[machine.disks[0].id]
    assert machine.disks[1].name != names[second_disk.id]
    restore(backup)
    assert guest.read() == "before"


def test_restore_works_without_prefix(api_as, back_up, path, run_tasks):
    """OP-02"""
    backup = back_up()
    assert api_as("owner", "POST", f"{path.removeprefix('/api')}/backup/{backup['id']}/restore").status_code == 200


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", CHANGING_CALLS)
def test_worker_killed_during_restore(back_up, restore, guest, machine, node, kill_worker_at, operation, after):
    """The next attempt completes the restore."""
    guest.write("before")
    backup = back_up()
    guest.write("after")
    count = len(list_disks(node))
    task = restore(backup, run=False)
    kill_worker_at(task, operation, after=after)
    assert requeue_to_new_worker(task).status == "completed"
    assert (guest.read(), node.power(machine.id)) == ("before", Power.on)
    assert len(list_disks(node)) == count


@pytest.mark.parametrize("operation", [call for call in CHANGING_CALLS if call != "delete_disk"])
def test_failed_restore_leaves_the_guest_as_it_was(
    back_up, restore, guest, machine, node, fault_at, run_tasks, operation
):
    """The node refuses a call: the guest has its earlier disk, and runs."""
    guest.write("before")
    backup = back_up()
    guest.write("after")
    disks = list_disks(node)
    calls = []

    def refuse_once():
        if not calls:
            calls.append(operation)
            raise Refused("The node refuses.")

    with fault_at(operation, refuse_once):
        task = restore(backup)
    assert (task.status, task.error) == ("failed", "The node refuses.")
    assert (guest.read(), node.power(machine.id)) == ("after", Power.on)
    assert list_disks(node) == disks
    assert restore(backup).status == "completed"
    assert guest.read() == "before"


def test_lost_answer_of_start_leaves_the_guest_as_it_was(
    back_up, restore, guest, machine, short_deadline_node, run_tasks
):
    """The start of the restored machine had its effect, but the answer was lost."""
    node = short_deadline_node
    guest.write("before")
    backup = back_up()
    guest.write("after")
    node.fault("start", "lost-answer", count=1)
    task = restore(backup)
    assert task.status == "failed"
    run_tasks()
    assert (guest.read(), node.power(machine.id)) == ("after", Power.on)


def test_cancelled_restore_leaves_the_guest_as_it_was(api_as, back_up, restore, guest, fault_at, node, machine):
    guest.write("before")
    backup = back_up()
    guest.write("after")
    task = restore(backup, run=False)
    with fault_at("power_off", lambda: api_as("owner", "POST", f"/api/task/{task.id}/cancel"), after=True):
        task = requeue_and_run(task)
    assert task.status == "cancelled"
    run = session.query(Task).filter_by(kind="backup_restore_revert").one()
    requeue_and_run(run)
    assert (guest.read(), node.power(machine.id)) == ("after", Power.on)


def requeue_and_run(task):
    return requeue_to_new_worker(task)


def test_point_that_is_gone_changes_nothing(back_up, restore, guest, folder, find_backup):
    """BAK-51: it is found out by the task, before anything is changed."""
    guest.write("before")
    backup = back_up()
    guest.write("after")
    (folder / find_backup(backup).repository_id / "objects" / "points" / backup["id"]).unlink()
    task = restore(backup)
    assert (task.status, task.error) == ("failed", "The backup is no longer in the storage.")
    assert guest.read() == "after"


def test_damaged_chunk_changes_nothing(back_up, restore, guest, folder, find_backup, node):
    guest.write("before")
    backup = back_up()
    guest.write("after")
    disks = list_disks(node)
    for pack in (folder / find_backup(backup).repository_id / "objects" / "packs").rglob("*"):
        if pack.is_file():
            pack.write_bytes(bytes(pack.stat().st_size))
    task = restore(backup)
    assert (task.status, task.error) == ("failed", "The backup storage cannot be used now.")
    assert (guest.read(), list_disks(node)) == ("after", disks)


def test_restore_needs_a_fitting_disk(api_as, back_up, refuse, machine, second_disk, node, cast):
    """BAK-39, BAK-40, BAK-41, BAK-42, BAK-43, BAK-44"""
    backup, primary = back_up(), back_up(backup_device="primary")
    unknown = "0199c0a8-0000-7000-8000-000000000000"
    assert refuse(backup, target_disk_id=unknown) == (422, "target_disk_not_found")
    foreign = cast.instance("outsider").disks[0].id
    assert refuse(backup, target_disk_id=foreign) == (422, "target_disk_not_found")
    assert refuse(primary, target_disk_id=second_disk.id) == (422, "source_archive_not_found")
    second_disk.attached = False
    session.commit()
    assert refuse(backup, target_disk_id=second_disk.id) == (422, "target_disk_not_found")
    second_disk.attached = True
    disk = machine.disks[0]
    disk.size, size = 1, disk.size
    session.commit()
    assert refuse(backup) == (422, "target_disk_too_small")
    disk.size = size
    machine.secure_boot_enabled = True
    session.commit()
    assert refuse(backup) == (422, "target_disk_incompatible")
    machine.secure_boot_enabled = False
    disk.storage.capacity, capacity = 0, disk.storage.capacity
    session.commit()
    assert refuse(backup) == (422, "target_disk_no_backend")
    disk.storage.capacity = capacity
    row = session.get(InstanceBackup, backup["id"])
    row.disks = [*row.disks, row.disks[0]]
    session.commit()
    assert refuse(backup) == (422, "source_archive_ambiguous")


def test_restore_is_refused_in_wrong_states(api_as, back_up, refuse, machine, cast, run_tasks, path, find_backup):
    """BAK-45, BAK-49, BAK-53"""
    backup = back_up()
    row = find_backup(backup)
    row.status = "failed"
    session.commit()
    assert refuse(backup) == (422, "backup_not_complete")
    row.status, row.delete_claimed_at = "complete", row.created_at
    session.commit()
    assert refuse(backup) == (409, "backup_being_deleted")
    row.delete_claimed_at = None
    cast.node.max_tasks, maximum = 1, cast.node.max_tasks
    other = Task(kind="backup_create", resource_type="instance", resource_id="x", hypervisor_id=cast.node.id)
    other.status = "running"
    session.add(other)
    session.commit()
    assert refuse(backup) == (409, "hypervisor_backup_busy")
    other.status, cast.node.max_tasks = "completed", maximum
    cast.node.status = "down"
    session.commit()
    assert refuse(backup) == (503, "hypervisor_unreachable")
    cast.node.status = "up"
    session.commit()
    api_as("owner", "POST", f"{path}/snapshot", json={"snapname": "one"})
    run_tasks()
    assert refuse(backup) == (409, "has_snapshots")
    api_as("owner", "DELETE", f"{path}/snapshot", json={"snapname": "one"})
    api_as("admin", "POST", f"/api/v1/instance/{machine.id}/state/suspend")
    run_tasks()
    assert refuse(backup) == (409, "suspended")
    restore_path = f"/api/v1/instance/{machine.id}/backup/{backup['id']}/restore"
    task_id = api_as("admin", "POST", restore_path).json["data"]["task_id"]
    run_tasks()
    assert session.get(Task, task_id).status == "completed", "operators may"
    assert machine.state == "suspended"


def test_silent_node_is_unreachable(back_up, refuse, machine, short_deadline_node):
    """BAK-45"""
    backup = back_up()
    short_deadline_node.fault("*", "silent")
    assert refuse(backup) == (503, "hypervisor_unreachable")


@pytest.mark.parametrize("body", [{"target_disk_id": 7}, {"target_disk_id": "x" * 37}, {"disk": "x"}])
def test_malformed_restore_is_refused(api_as, back_up, path, body):
    backup = back_up()
    answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, list(body))


def test_restore_needs_its_permission(api_as, back_up, path, cast):
    backup = back_up()
    assert api_as("viewer", "POST", f"{path}/backup/{backup['id']}/restore").status_code == 403
    assert api_as("outsider", "POST", f"{path}/backup/{backup['id']}/restore").status_code == 404
    other = cast.instance()
    answer = api_as("owner", "POST", f"/api/instance/{other.id}/backup/{backup['id']}/restore")
    assert (answer.status_code, answer.json["reason"]) == (404, "backup_not_found")


def test_source_of_restore_is_hidden_from_another_owner(api_as, back_up, machine, cast, run_tasks):
    """INS-31"""
    backup = back_up()
    machine.account_id = cast.outsider.id
    session.commit()
    restore_path = f"/api/v1/instance/{machine.id}/backup/{backup['id']}/restore"
    task_id = api_as("admin", "POST", restore_path).json["data"]["task_id"]
    run_tasks()
    admin_row = api_as("admin", "GET", f"/api/v1/task/{task_id}").json["data"]
    assert (admin_row["status"], admin_row["source_backup_id"]) == ("completed", backup["id"])
    shown = [
        api_as("outsider", "GET", f"/api/task/{task_id}").json["task"],
        api_as("outsider", "GET", f"/api/instance/{machine.id}/tasks").json["data"][0],
        api_as("outsider", "GET", f"/api/instance/{machine.id}").json["tasks"][0],
    ]
    assert [(row["source_backup_id"], row["source_backup_at"]) for row in shown] == [(None, None)] * 3
    [admin_task] = api_as("admin", "GET", f"/api/v1/instance/{machine.id}").json["data"]["tasks"][:1]
    assert admin_task["source_backup_id"] == backup["id"]


def test_backup_becomes_an_image(api_as, back_up, run_tasks, machine, rolled_back_app, cast):
    backup = back_up()
    body = {"backup_id": backup["id"], "name": "from backup"}
    size, owner_id = machine.disks[0].size, cast.owner.id
    session.expunge(machine)  # as in a request of its own
    answer = api_as("owner", "POST", "/api/images", json=body)
    assert (answer.status_code, answer.json["image"]["status"]) == (200, "creating")
    run_tasks()
    image = session.get(Image, answer.json["image"]["id"], populate_existing=True)
    assert (image.status, image.label, image.distro, image.account_id) == (
        "available",
        "from backup",
        "Debian",
        owner_id,
    )
    file = rolled_back_app.extensions["config"].data_dir / "images" / image.filename
    assert image.size == file.stat().st_size
    assert image_files.read_virtual_size(file) == size * 1024**3
    deployed = cast.instance()
    api_as("owner", "POST", f"/api/instance/{deployed.id}/deploy", json={"image_id": image.id, "password": "x" * 12})
    run_tasks()
    assert deployed.state == "running"


def test_image_of_a_backup_that_cannot_be_used(api_as, back_up, run_tasks, find_backup, machine, path):
    backup = back_up()
    row = find_backup(backup)
    create = lambda **body: api_as("owner", "POST", "/api/images", json={"name": "i", **body})  # noqa: E731
    unknown = "0199c0a8-0000-7000-8000-000000000000"
    for body, fields in (
        ({"backup_id": unknown}, ["backup_id"]),
        ({"backup_id": 7}, ["backup_id"]),
        ({}, ["instance_id"]),
        ({"backup_id": backup["id"], "instance_id": machine.id}, ["instance_id"]),
    ):
        answer = create(**body)
        assert (answer.status_code, list(answer.json["errors"])) == (422, fields)
    answer = api_as("outsider", "POST", "/api/images", json={"name": "i", "backup_id": backup["id"]})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["backup_id"])
    row.status = "failed"
    session.commit()
    assert create(backup_id=backup["id"]).json["reason"] == "backup_not_complete"
    row.status, row.delete_claimed_at = "complete", row.created_at
    session.commit()
    assert create(backup_id=backup["id"]).json["reason"] == "backup_being_deleted"
    row.delete_claimed_at, row.disks = None, []
    session.commit()
    assert create(backup_id=backup["id"]).json["reason"] == "source_archive_not_found"
    assert session.scalars(select(Image).where(Image.purpose == "user")).all() == []


def test_failed_image_of_a_backup(api_as, back_up, run_tasks, folder, find_backup):
    backup = back_up()
    (folder / find_backup(backup).repository_id / "objects" / "points" / backup["id"]).unlink()
    image_id = api_as("owner", "POST", "/api/images", json={"name": "i", "backup_id": backup["id"]}).json["image"]["id"]
    run_tasks()
    assert session.get(Image, image_id, populate_existing=True).status == "error"


def test_simulated_driver_has_all_calls():
    assert all(hasattr(SimulatedNode, call) for call in CHANGING_CALLS)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_backup_deleted_while_the_node_is_polled_is_refused(back_up, refuse, monkeypatch, is_deleted):
    """The session of the request still has the rows as they were before it waited."""
    backup = back_up()
    rows = InstanceBackup.__table__

    def change_row(_):
        change = rows.delete() if is_deleted else rows.update().values(delete_claimed_at=clock.now())
        session.connection().execute(change.where(rows.c.id == backup["id"]))

    monkeypatch.setattr(reachability, "check_node", change_row)
    assert refuse(backup) == ((404, "backup_not_found") if is_deleted else (409, "backup_being_deleted"))
