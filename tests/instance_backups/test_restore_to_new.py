"""Restoring a backup on a backup server to a new instance."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import BackupDestination, Hypervisor, Instance, InstanceBackup, Task
from panel.services import backup_destinations
from panel.workflows import reachability
from tests.instance_backups.rbs_destination import destination  # noqa: F401  (fixture)
from tests.support.rbs_server import rbs_server  # noqa: F401  (fixture)
from tests.support.running_machine import GuestFile
from tests.support.worker_faults import requeue_to_new_worker
from worker.nodes.base import NotOnNode, Refused
from worker.tasks.machine_spec import build_spec


@pytest.fixture
def backup(back_up, guest):
    guest.write("kept")
    return back_up()


@pytest.fixture
def request_restore(api_as, machine, run_tasks):
    """Return a function that requests the restore to a new instance."""

    def request_restore(backup, caller="admin", **body):
        path = f"/api/v1/instance/{machine.id}/backup/{backup['id']}/restore-to-new"
        return api_as(caller, "POST", path, json=body)

    return request_restore


@pytest.fixture
def refuse(request_restore):
    """Return a function that expects a refusal without a new instance."""

    def refuse(backup, status, reason, **body):
        count = session.query(Instance).count()
        answer = request_restore(backup, **body)
        assert (answer.status_code, answer.json.get("reason")) == (status, reason), answer.text
        session.rollback()
        assert session.query(Instance).count() == count
        return answer

    return refuse


def test_backup_is_restored_to_a_new_instance(backup, request_restore, run_tasks, node, machine, guest):
    """BAK-46, BAK-47"""
    guest.write("later")
    answer = request_restore(backup, hostname="copy.example.com")
    assert answer.status_code == 200, answer.text
    data = answer.json["data"]
    assert set(data) == {"task_id", "instance_id", "billing_mode"}
    assert data["billing_mode"] == machine.billing_mode == "cloud_service"
    assert session.get(Instance, data["instance_id"]).deployed is False
    run_tasks()
    task = session.get(Task, data["task_id"], populate_existing=True)
    assert task.status == "completed", task.error
    copy = session.get(Instance, data["instance_id"], populate_existing=True)
    assert (copy.state, copy.hostname, copy.account_id) == ("running", "copy.example.com", machine.account_id)
    assert (copy.plan_id, copy.hypervisor_id) == (machine.plan_id, machine.hypervisor_id)
    assert copy.ipv4 != machine.ipv4
    assert GuestFile(node, copy).read() == "kept"
    assert guest.read() == "later"


def test_all_disks_are_restored(back_up, second_disk, machine, guest, request_restore, run_tasks):
    backup = back_up(backup_device="all")
    assert len(backup["disks"]) == 2
    data = request_restore(backup).json["data"]
    run_tasks()
    assert session.get(Task, data["task_id"], populate_existing=True).status == "completed"
    copy = session.get(Instance, data["instance_id"], populate_existing=True)
    assert [(disk.position, disk.size) for disk in copy.disks] == [
        (disk.position, disk.size) for disk in sorted(machine.disks, key=lambda disk: disk.position)
    ]


@pytest.mark.parametrize("has_tpm", [True, False])
def test_new_instance_has_the_stored_firmware_and_tpm(back_up, machine, node, request_restore, run_tasks, has_tpm):
    node.power_off(machine.id)
    machine.tpm_enabled = machine.secure_boot_enabled = True
    session.commit()
    node.define(build_spec(machine))
    state = {"nvram": b"variables", "tpm": b"keys"}
    node.write_firmware_state(machine.id, state)
    node.start(machine.id)
    backup = back_up()
    machine.hypervisor.tpm = has_tpm
    session.commit()
    data = request_restore(backup).json["data"]
    run_tasks()
    assert session.get(Task, data["task_id"], populate_existing=True).status == "completed"
    copy = session.get(Instance, data["instance_id"], populate_existing=True)
    assert (copy.tpm_enabled, copy.secure_boot_enabled) == (has_tpm, True)
    assert node.read_firmware_state(copy.id) == (state if has_tpm else {"nvram": state["nvram"]})


def test_backup_of_a_destroyed_instance_is_restored(api_as, backup, machine, request_restore, run_tasks, refuse):
    hypervisor_id, plan_id = machine.hypervisor_id, machine.plan_id
    assert api_as("admin", "DELETE", f"/api/v1/instance/{machine.id}").status_code == 200
    run_tasks()
    assert session.query(Instance).count() == 0
    refuse(backup, 422, None)
    data = request_restore(backup, hypervisor_id=hypervisor_id, plan_id=plan_id).json["data"]
    run_tasks()
    assert session.get(Task, data["task_id"], populate_existing=True).status == "completed"


def test_billing_mode_is_that_of_the_source(backup, machine, request_restore):
    """BAK-47"""
    for mode in ("external", "self_provisioned"):
        machine.billing_mode = mode
        session.commit()
        assert request_restore(backup).json["data"]["billing_mode"] == mode


@pytest.mark.parametrize("status", ["creating", "failed"])
def test_incomplete_backup_is_refused(backup, refuse, find_backup, status):
    """BAK-49, BAK-54"""
    find_backup(backup).status = status
    session.commit()
    refuse(backup, 422, "backup_not_complete")


def test_backup_without_snapshot_is_refused(api_as, backup, refuse, find_backup, path):
    """BAK-50, BAK-54"""
    find_backup(backup).rbs_backup_time = None
    session.commit()
    refuse(backup, 422, "backup_not_addressable")
    answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore")
    assert (answer.status_code, answer.json["reason"]) == (422, "backup_not_addressable")


def test_missing_backup_is_refused(backup, refuse, find_backup):
    """BAK-51, BAK-54"""
    find_backup(backup).missing_confirmed_at = find_backup(backup).created_at
    session.commit()
    refuse(backup, 422, "backup_missing")


def test_backup_elsewhere_is_refused(backup, refuse, tmp_path, find_backup):
    """BAK-48, BAK-54"""
    other = backup_destinations.create(name="local", storage_type="local", config={"path": str(tmp_path / "other")})
    find_backup(backup).destination = other
    session.commit()
    refuse(backup, 422, "not_rbs_backup")


def test_hypervisor_with_another_destination_is_refused(backup, refuse, machine, tmp_path):
    """BAK-52, BAK-54"""
    config = {"path": str(tmp_path / "own")}
    backup_destinations.create(name="own", storage_type="local", config=config, hypervisor_ids=[machine.hypervisor_id])
    session.commit()
    refuse(backup, 409, "destination_mismatch")


def test_busy_hypervisor_is_refused(backup, refuse, machine):
    """BAK-53, BAK-54"""
    task = session.query(Task).filter_by(kind="backup_create").first()
    task.status = "running"
    session.get(Hypervisor, machine.hypervisor_id).max_tasks = 1
    session.commit()
    refuse(backup, 409, "hypervisor_backup_busy")


def test_unreachable_hypervisor_is_refused(backup, refuse, machine):
    """BAK-54"""
    session.get(Hypervisor, machine.hypervisor_id).status = "down"
    session.commit()
    refuse(backup, 503, "hypervisor_unreachable")


def test_disk_larger_than_that_of_the_plan_is_refused(backup, refuse, find_backup):
    """BAK-54"""
    row = find_backup(backup)
    row.disks = [disk | {"size": disk["size"] * 1000} for disk in row.disks]
    session.commit()
    refuse(backup, 422, "target_disk_too_small")


def test_backup_of_another_instance_is_not_found(api_as, backup, cast):
    other = cast.instance(hostname="other.example.com")
    answer = api_as("admin", "POST", f"/api/v1/instance/{other.id}/backup/{backup['id']}/restore-to-new")
    assert (answer.status_code, answer.json["reason"]) == (404, "backup_not_found")


def test_restore_requires_an_operator(backup, request_restore):
    assert request_restore(backup, caller="owner").status_code == 403


@pytest.mark.parametrize("operation", ["write_disk", "create_seed", "define", "start"])
def test_worker_killed_at_every_call(backup, request_restore, kill_worker_at, node, operation):
    """The next attempt completes the instance."""
    for after in (False, True):
        data = request_restore(backup).json["data"]
        task = session.get(Task, data["task_id"])
        kill_worker_at(task, operation, after=after)
        assert requeue_to_new_worker(task).status == "completed", after
        assert GuestFile(node, session.get(Instance, data["instance_id"])).read() == "kept"


@pytest.mark.parametrize("operation", ["write_disk", "create_seed", "define", "start"])
def test_refused_call_leaves_nothing_on_the_node(backup, request_restore, fault_at, run_tasks, node, operation):
    def refuse():
        raise Refused("no")

    data = request_restore(backup).json["data"]
    with fault_at(operation, refuse):
        run_tasks()
    assert session.get(Task, data["task_id"], populate_existing=True).status == "failed"
    copy = session.get(Instance, data["instance_id"], populate_existing=True)
    assert (copy.deployed, bool(copy.last_error)) == (False, True)
    assert [disk.name for disk in node.disks("default") if disk.name.startswith(f"{copy.name}-")] == []
    with pytest.raises(NotOnNode):
        node.power(copy.id)


def test_failed_restore_leaves_the_error(backup, request_restore, run_tasks, rbs_server):
    data = request_restore(backup).json["data"]
    rbs_server.datastore.snapshots.clear()
    run_tasks()
    assert session.get(Task, data["task_id"], populate_existing=True).status == "failed"
    copy = session.get(Instance, data["instance_id"], populate_existing=True)
    assert (copy.deployed, bool(copy.last_error)) == (False, True)
    assert session.query(InstanceBackup).count() == 1
    assert session.query(BackupDestination).count() == 1


@pytest.fixture
def browser(browser_as, inline_workers):
    return browser_as("admin")


def test_operator_restores_by_the_page(browser, backup, machine, run_tasks):
    """BAK-46"""
    path = f"/admin/backups/{backup['id']}/restore-to-new"
    assert path in browser.get(f"/admin/backups/{backup['id']}").text
    form = browser.get(path).text
    for value in (machine.hostname, machine.hypervisor_id, machine.plan_id):
        assert f'value="{value}"' in form
    fields = {"hypervisor_id": machine.hypervisor_id, "plan_id": machine.plan_id, "display_name": "Copy"}
    answer = browser.post(path, data=fields | {"hostname": "-"})
    assert answer.status_code == 422
    assert 'id="wrong-hostname"' in answer.text
    assert session.query(Instance).count() == 1
    assert browser.post(path, data=fields | {"hostname": "copy.example.com"}).status_code == 303
    run_tasks()
    copy = session.query(Instance).filter_by(display_name="Copy").one()
    assert (copy.state, copy.hostname) == ("running", "copy.example.com")
    page = browser.get(f"/admin/backups/{backup['id']}").text
    assert f"vm/{machine.id}/{backup['rbs_backup_time']}" in page


def test_page_names_what_does_not_fit(browser, backup, machine, find_backup, tmp_path):
    fields = {"hostname": "copy.example.com", "display_name": "Copy", "hypervisor_id": "", "plan_id": ""}
    row = find_backup(backup)
    row.disks = [disk | {"size": disk["size"] * 1000} for disk in row.disks]
    session.commit()
    answer = browser.post(f"/admin/backups/{backup['id']}/restore-to-new", data=fields)
    assert answer.status_code == 422
    assert "smaller than the stored one" in answer.text
    assert session.query(Instance).count() == 1


def test_backup_claimed_while_the_node_is_polled_is_refused(backup, refuse, monkeypatch):
    """The session of the request still has the row as it was before it waited."""
    rows = InstanceBackup.__table__

    def claim_row(_):
        change = rows.update().values(delete_claimed_at=clock.now()).where(rows.c.id == backup["id"])
        session.connection().execute(change)

    monkeypatch.setattr(reachability, "check_node", claim_row)
    refuse(backup, 409, "backup_being_deleted")
