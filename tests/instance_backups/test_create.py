"""Backups of an instance: what is requested, stored and shown."""

import pytest
from sqlalchemy import text

from panel.core.db import session
from panel.models import BackupRepository, InstanceBackup, Task
from panel.services import backup_destinations
from panel.services.instance_backups.create import generate_repository_key
from tests.support.worker_faults import requeue_to_new_worker
from worker.backups.keys import RepositoryKey
from worker.backups.repository import Repository
from worker.backups.targets import LocalTarget
from worker.engine.runner import TaskContext
from worker.tasks import instance_backups as worker_tasks
from worker.tasks.backup_targets import build_target

RBS_KEYS = (
    "read_mode",
    "bytes_read",
    "bytes_uploaded",
    "chunks_reused",
    "verification_status",
    "rbs_backup_id",
    "rbs_backup_time",
    "based_on_backup_id",
    "based_on_rbs_backup_time",
)
ADMIN_KEYS = {"rbs_namespace", "missing_candidate_at", "missing_confirmed_at", "instance_cleanup_pending"}


@pytest.fixture
def repository(destination):
    """Return a function that opens the repository of the machine's owner."""

    def open_repository():
        row = session.query(BackupRepository).one()
        target = build_target(row.destination.storage_type, row.destination.config, row.id)
        return Repository(target, RepositoryKey.from_text(row.key))

    return open_repository


def read_content(repository, point):
    """Return what the disks of the point have besides zeros."""
    disks = repository.read_manifest(point).disks
    return [
        (offset, bytes(repository.read_chunk(name)).rstrip(b"\0"))
        for disk in disks
        for offset, name in repository.list_chunks(disk)
    ]


def test_full_and_incremental_backup(api_as, back_up, guest, machine, path, repository):
    """BAK-01, BAK-02, BAK-03, BAK-05, BAK-07, BAK-08, BAK-09, BAK-13"""
    guest.write("one")
    first = back_up(name="first", description="by hand", encrypted=True, backup_type="incremental")
    assert (first["name"], first["description"], first["backup_type"]) == ("first", "by hand", "full")
    assert (first["created"], first["status"], first["error"], first["encrypted"]) == (True, "complete", None, True)
    assert (first["chain_reason"], first["parent_backup_id"]) == ("first_backup", None)
    assert first["consistency"] == "filesystem"
    assert first["size"] == first["statistics"]["bytes_stored"] > 0
    assert [(disk["id"], disk["read_mode"]) for disk in first["disks"]] == [(machine.disks[0].id, "full")]
    assert (first["protected"], first["missing_on_rbs"], first["deletion"]) == (False, False, None)
    assert [first[key] for key in RBS_KEYS] == [None] * len(RBS_KEYS)
    assert (first["instance_name"], first["instance_hostname"]) == (machine.display_name, machine.hostname)
    assert (first["destination_name"], first["destination_type"]) == ("backups-1", "local")
    assert first["created_at"] <= first["completed_at"]
    guest.write("two")
    second = back_up(backup_type="incremental")
    assert second["name"].startswith(f"{machine.hostname} 20")
    assert (second["backup_type"], second["chain_reason"]) == ("incremental", None)
    assert second["parent_backup_id"] == first["id"]
    assert [second[key] for key in RBS_KEYS] == [None] * len(RBS_KEYS)
    shown = api_as("owner", "GET", f"{path}/backup/{second['id']}").json
    assert (shown["backup"], [link["id"] for link in shown["chain"]]) == (second, [first["id"]])
    assert api_as("owner", "GET", f"/api/backup/{second['id']}").json == shown
    assert set(repository().list_points()) == {first["id"], second["id"]}
    contents = [read_content(repository(), row["id"]) for row in (first, second)]
    assert contents[0] != contents[1]


def test_operators_see_more_of_a_backup(api_as, back_up, machine):
    """BAK-10, BAK-11, BAK-12, BAK-61"""
    row = back_up()
    assert not ADMIN_KEYS & row.keys()
    for admin_path in ("/api/v1/instance-backups", f"/api/v1/instance/{machine.id}/backups"):
        [admin_row] = api_as("admin", "GET", admin_path).json["data"]
        assert row.items() <= admin_row.items()
        assert admin_row.keys() - row.keys() == {*ADMIN_KEYS, "account_id", "owner", "operation_id"}
        assert (admin_row["instance_deleted"], admin_row["instance_cleanup_pending"]) == (False, False)
    assert api_as("admin", "GET", f"/api/v1/instance/{machine.id}/backup/{row['id']}").json["data"] == admin_row


def test_operator_backs_up_an_instance(api_as, machine, destination, run_tasks):
    answer = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/backups", json={"name": "by operator"})
    assert answer.json == {"success": True, "message": "Backup requested."}
    run_tasks()
    assert session.query(InstanceBackup).one().status == "complete"


def test_type_and_disks_are_chosen(back_up, second_disk, machine):
    assert [disk["position"] for disk in back_up(backup_type="incremental")["disks"]] == [0, 1]
    requested = back_up(backup_type="full", backup_device="primary")
    assert (requested["backup_type"], requested["chain_reason"], len(requested["disks"])) == ("full", "requested", 1)
    assert requested["backup_device"] == "primary"


def test_location_decides_default_type(back_up, cast):
    """HVG-04: `backup_mode`"""
    back_up()
    assert back_up()["chain_reason"] == "backup_mode"
    assert back_up(backup_type="full")["chain_reason"] == "requested"
    cast.location.backup_mode = "incremental"
    session.commit()
    assert back_up()["backup_type"] == "incremental"


def test_reset_chain_reads_everything_once(api_as, back_up, machine, second_disk):
    """BAK-56, BAK-57"""
    back_up(backup_type="incremental")
    reset = f"/api/v1/instance/{machine.id}/backup/rbs-chain/reset"
    for wrong in ("0199c0a8-0000-7000-8000-000000000000", "x"):
        answer = api_as("admin", "POST", reset, json={"disk_id": wrong})
        assert (answer.status_code, answer.json["reason"]) == (422, "unknown_disk")
    assert back_up(backup_type="incremental")["backup_type"] == "incremental"
    assert api_as("admin", "POST", reset, json={}).status_code == 200
    assert back_up(backup_type="incremental")["chain_reason"] == "chain_reset"


def test_reset_chain_of_one_disk_reads_only_that_disk_once(api_as, back_up, machine, second_disk):
    """BAK-55"""
    back_up(backup_type="incremental")
    reset = f"/api/v1/instance/{machine.id}/backup/rbs-chain/reset"
    assert api_as("admin", "POST", reset, json={"disk_id": second_disk.id}).status_code == 200

    def read_modes(backup):
        return {
            (disk["id"] == second_disk.id): (disk["read_mode"], disk["full_read_reason"]) for disk in backup["disks"]
        }

    backup = back_up(backup_type="incremental")
    assert read_modes(backup) == {True: ("full", "chain_reset"), False: ("incremental", None)}
    assert (backup["backup_type"], backup["chain_reason"]) == ("incremental", "chain_reset")
    assert read_modes(back_up(backup_type="incremental")) == {
        True: ("incremental", None),
        False: ("incremental", None),
    }


def test_reset_that_the_node_refuses_changes_nothing(api_as, back_up, machine, node):
    """BAK-59"""
    back_up(backup_type="incremental")
    reset = f"/api/v1/instance/{machine.id}/backup/rbs-chain/reset"
    for kind, status, reason in (("refuse", 409, "hypervisor_refused"), ("lost-answer", 503, "hypervisor_unreachable")):
        node.fault("delete_checkpoints", kind, 1)
        answer = api_as("admin", "POST", reset, json={})
        assert (answer.status_code, answer.json["reason"]) == (status, reason)
    assert back_up(backup_type="incremental")["chain_reason"] == "no_checkpoint", "the lost answer was of a deletion"
    node.fault("delete_checkpoints", "refuse", 1)
    api_as("admin", "POST", reset, json={})
    assert back_up(backup_type="incremental")["backup_type"] == "incremental"


def test_reset_of_stopped_instance_does_not_start_it(api_as, back_up, machine, node, path, run_tasks):
    back_up(backup_type="incremental")
    api_as("owner", "POST", f"{path}/power/poweroff")
    run_tasks()
    node.fault("delete_checkpoints", "refuse", 1)
    reset = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/backup/rbs-chain/reset", json={})
    assert reset.status_code == 200
    node.clear()
    api_as("owner", "POST", f"{path}/power/start")
    run_tasks()
    assert back_up(backup_type="incremental")["chain_reason"] == "chain_reset"


def test_reset_chain_needs_the_node(api_as, machine, destination, cast):
    """BAK-60"""
    cast.node.status = "down"
    session.commit()
    answer = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/backup/rbs-chain/reset", json={})
    assert (answer.status_code, answer.json["reason"]) == (503, "hypervisor_unreachable")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": 7}, "name"),
        ({"description": "x" * 1025}, "description"),
        ({"backup_type": "differential"}, "backup_type"),
        ({"backup_device": "vda"}, "backup_device"),
        ({"encrypted": 1}, "encrypted"),
        ({"destination": "x"}, "destination"),
    ],
)
def test_wrong_request_is_refused(api_as, path, body, field):
    answer = api_as("owner", "POST", f"{path}/backups", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert session.query(InstanceBackup).count() == 0


def test_backup_of_instance_in_wrong_state_is_refused(api_as, cast, path, machine, destination):
    undeployed = cast.instance()
    answer = api_as("owner", "POST", f"/api/instance/{undeployed.id}/backups")
    assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")
    assert api_as("owner", "POST", f"{path}/backups").status_code == 200
    answer = api_as("owner", "POST", f"{path}/backups")
    assert (answer.status_code, answer.json["reason"]) == (409, "task_running"), "one backup at a time"


def test_suspended_instance_is_backed_up(api_as, path, machine, back_up, run_tasks):
    api_as("admin", "POST", f"/api/v1/instance/{machine.id}/state/suspend")
    run_tasks()
    assert back_up()["consistency"] == "stopped"


def test_backup_needs_a_destination(api_as, machine, destination):
    destination.enabled = False
    session.commit()
    answer = api_as("owner", "POST", f"/api/instance/{machine.id}/backups")
    assert (answer.status_code, answer.json["reason"]) == (409, "no_backup_destination")
    destination.enabled, destination.status = True, "unavailable"
    session.commit()
    answer = api_as("owner", "POST", f"/api/instance/{machine.id}/backups")
    assert (answer.status_code, answer.json["reason"]) == (503, "backup_storage_unavailable")


def test_node_uses_its_own_destination(back_up, destination, cast, tmp_path):
    other = backup_destinations.create(
        name="own", storage_type="local", config={"path": str(tmp_path / "own")}, hypervisor_ids=[cast.node.id]
    )
    session.commit()
    assert back_up()["backup_storage_id"] == other.id
    cast.location.backup_mode = "incremental"
    other.enabled = False
    session.commit()
    assert (back_up()["chain_reason"], back_up()["backup_type"]) == ("first_backup", "incremental")
    other.enabled = True
    session.commit()
    assert back_up()["backup_type"] == "incremental", "its checkpoint was retained meanwhile"


def test_accounts_have_repositories_with_keys_of_their_own(back_up, folder):
    row = back_up()
    repository = session.query(BackupRepository).one()
    assert RepositoryKey.from_text(repository.key).to_text() == repository.key
    assert repository.key not in session.scalar(text("select key from backup_repositories"))
    assert (folder / repository.id / "objects" / "points" / row["id"]).exists()
    assert RepositoryKey.from_text(generate_repository_key()).to_text() != repository.key


def test_failed_backup_has_error(api_as, path, run_tasks, destination, back_up, folder, node, find_backup):
    first = back_up()
    (folder / session.query(BackupRepository).one().id).rename(folder / "away")
    failed = back_up()
    assert (failed["status"], failed["created"]) == ("failed", False)
    assert failed["error"] == "The backup storage cannot be used now."
    task = session.query(Task).filter_by(kind="backup_create").order_by(Task.id.desc()).first()
    assert "has no object repository" in task.error_detail
    assert not any(folder.glob(f"{find_backup(first).repository_id}/*")), "no new repository replaces a lost one"
    (folder / "away").rename(folder / find_backup(first).repository_id)
    assert back_up()["status"] == "complete"


def test_task_has_progress_rate_and_time_left(api_as, path, machine, destination, run_tasks, monkeypatch):
    seen = []
    real = worker_tasks.backup_machine

    def watch(node, repository, request, progress):
        manifest = real(node, repository, request, progress)
        session.commit()
        progress(25, 100)
        progress(50, 100)
        session.expire_all()
        seen.append(api_as("owner", "GET", f"{path}/tasks").json["data"][0])
        return manifest

    monkeypatch.setattr(worker_tasks, "backup_machine", watch)
    monkeypatch.setattr(TaskContext, "report_progress", report_always(TaskContext.report_progress))
    assert api_as("owner", "POST", f"{path}/backups").status_code == 200
    run_tasks()
    [task] = seen
    assert (task["kind"], task["bytes_done"], task["bytes_total"]) == ("backup_create", 50, 100)
    assert task["bytes_per_second"] > 0
    assert task["seconds_left"] >= 1
    task = api_as("owner", "GET", f"{path}/tasks").json["data"][0]
    assert (task["status"], task["seconds_left"]) == ("completed", None)


def report_always(report):
    def report_now(work, done, total):
        work.next_progress_write_at = 0
        report(work, done, total)

    return report_now


def test_worker_killed_at_every_call_of_a_backup(api_as, path, run_tasks, kill_worker_at, back_up, guest, repository):
    """The next attempt completes the backup, and nothing is left on the node."""
    guest.write("kept")
    back_up(backup_type="incremental")
    for operation in ("begin_backup", "open_backup", "end_backup", "delete_checkpoints"):
        for after in (False, True):
            api_as("owner", "POST", f"{path}/backups", json={"backup_type": "incremental"})
            task = session.query(Task).filter_by(kind="backup_create").order_by(Task.id.desc()).first()
            kill_worker_at(task, operation, after=after)
            assert requeue_to_new_worker(task).status == "completed", (operation, after)
    rows = api_as("owner", "GET", f"{path}/backups").json["data"]
    assert {row["status"] for row in rows} == {"complete"}
    assert set(repository().list_points()) == {row["id"] for row in rows}


def test_manifest_of_previous_backup_is_missing(back_up, repository, find_backup):
    first = back_up(backup_type="incremental")
    repository().delete_point(first["id"])
    assert back_up(backup_type="incremental")["chain_reason"] == "previous_missing"


def test_target_of_repository_is_below_the_destination(back_up, folder):
    back_up()
    row = session.query(BackupRepository).one()
    target = build_target("local", row.destination.config, row.id)
    assert isinstance(target, LocalTarget)
    assert target.directory.parent == folder
