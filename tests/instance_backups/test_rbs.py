"""Backups of a running machine on a remote backup server."""

from datetime import timedelta

import pytest

from panel.core.db import session
from panel.models import BackupRepository, Image, InstanceBackup, Task
from panel.services import backup_destinations, backup_repositories, backup_verification, instance_backups
from panel.services.media import image_files
from tests.instance_backups.rbs_destination import destination  # noqa: F401  (fixture)
from tests.support.rbs_server import rbs_server  # noqa: F401  (fixture)
from tests.support.worker_faults import requeue_to_new_worker
from worker.tasks import rbs_snapshots
from worker.tasks.instance_backups import reconcile_deletions


@pytest.fixture
def change_settings(destination):
    """Return a function that changes settings of the destination."""

    def change(**config):
        backup_destinations.update(destination, config=config)
        session.commit()

    return change


@pytest.fixture
def run_comparison(run_tasks):
    """Return a function that compares the backups with the server. Returns the status of the task."""

    def run_comparison():
        task = backup_repositories.enqueue_collection(session.query(BackupRepository).one())
        session.commit()
        run_tasks()
        return session.get(Task, task.id, populate_existing=True).status

    return run_comparison


def make_candidates_older():
    for backup in session.query(InstanceBackup).filter(InstanceBackup.missing_candidate_at.is_not(None)):
        backup.missing_candidate_at -= timedelta(hours=1)
    session.commit()


def restore(api_as, path, backup, run_tasks):
    answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore")
    assert answer.status_code == 200, answer.text
    run_tasks()
    return session.get(Task, answer.json["task_id"], populate_existing=True)


def test_full_backup_is_described(api_as, back_up, guest, machine, rbs_server):
    """BAK-02, BAK-03, BAK-04, BAK-08, BAK-10"""
    guest.write("first")
    backup = back_up(backup_type="full")
    assert (backup["status"], backup["read_mode"], backup["destination_type"]) == ("complete", "full", "rbs")
    assert backup["bytes_read"] == backup["statistics"]["bytes_read"] > 0
    assert backup["bytes_uploaded"] == backup["size"] > 0
    assert (backup["chunks_reused"], backup["verification_status"], backup["missing_on_rbs"]) == (0, "none", False)
    [key] = rbs_server.datastore.snapshots
    assert key == ("panel", "vm", machine.id, backup["rbs_backup_time"])
    assert backup["rbs_backup_id"] == machine.id
    assert (backup["based_on_backup_id"], backup["based_on_rbs_backup_time"]) == (None, None)
    assert "rbs_namespace" not in backup
    row = api_as("admin", "GET", f"/api/v1/instance/{machine.id}/backup/{backup['id']}").json["data"]
    assert row["rbs_namespace"] == "panel"


def test_increment_names_the_snapshot_it_reused(api_as, back_up, guest, rbs_server):
    """BAK-02, BAK-03, BAK-07"""
    guest.write("first")
    first = back_up(backup_type="full")
    guest.write("second")
    second = back_up(backup_type="incremental")
    assert (second["read_mode"], second["chain_reason"]) == ("incremental", None)
    assert second["based_on_backup_id"] == first["id"]
    assert second["based_on_rbs_backup_time"] == first["rbs_backup_time"] < second["rbs_backup_time"]
    assert second["bytes_read"] < first["bytes_read"]
    assert len(rbs_server.datastore.snapshots) == 2
    rows = api_as("owner", "GET", "/api/backups?sort=rbs_backup_time&dir=asc&storage_type=rbs").json["data"]
    assert [row["id"] for row in rows] == [first["id"], second["id"]]


def test_reused_backup_is_named_after_its_deletion(api_as, back_up, guest, path, find_backup):
    """BAK-07"""
    backups = []
    for text, kind in (("first", "full"), ("second", "incremental")):
        guest.write(text)
        backups.append(back_up(backup_type=kind))
    assert api_as("owner", "DELETE", f"{path}/backup/{backups[0]['id']}").status_code == 200
    assert find_backup(backups[0]) is None
    [row] = api_as("owner", "GET", f"{path}/backups").json["data"]
    assert row["based_on_backup_id"] == backups[0]["id"]
    assert row["based_on_rbs_backup_time"] == backups[0]["rbs_backup_time"]


def test_machine_is_restored_in_place(api_as, back_up, guest, path, run_tasks):
    """A full backup, an increment, and the restore of both."""
    backups = []
    for text, kind in (("first", "full"), ("second", "incremental")):
        guest.write(text)
        backups.append(back_up(backup_type=kind))
    guest.write("third")
    for backup, text in zip(backups, ("first", "second"), strict=True):
        assert restore(api_as, path, backup, run_tasks).status == "completed"
        assert guest.read() == text
    again = back_up(backup_type="incremental")
    assert (again["status"], again["read_mode"]) == ("complete", "full"), "the restored disk is a new one"
    assert again["chunks_reused"] > 0, "its content is known from the last snapshot"


def test_backup_becomes_an_image(api_as, back_up, machine, run_tasks, rolled_back_app):
    backup, size = back_up(), machine.disks[0].size
    answer = api_as("owner", "POST", "/api/images", json={"backup_id": backup["id"], "name": "from backup"})
    assert answer.status_code == 200, answer.text
    run_tasks()
    image = session.get(Image, answer.json["image"]["id"], populate_existing=True)
    assert image.status == "available"
    file = rolled_back_app.extensions["config"].data_dir / "images" / image.filename
    assert image_files.read_virtual_size(file) == size * 1024**3


def test_one_disk_is_read_completely_after_its_reset(api_as, back_up, second_disk, machine, run_tasks):
    """BAK-55"""
    for action in ("stop", "start"):
        api_as("owner", "POST", f"/api/instance/{machine.id}/{action}")
        run_tasks()
    back_up(backup_device="all")
    body = {"disk_id": second_disk.id}
    answer = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/backup/rbs-chain/reset", json=body)
    assert answer.status_code == 200, answer.text
    backup = back_up(backup_device="all", backup_type="incremental")
    assert [(disk["position"], disk["read_mode"]) for disk in backup["disks"]] == [(0, "incremental"), (1, "full")]
    assert backup["read_mode"] == "incremental"


def test_full_read_after_chain_reset(api_as, back_up, guest, machine, rbs_server):
    """BAK-56"""
    back_up()
    answer = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/backup/rbs-chain/reset", json={})
    assert answer.status_code == 200, answer.text
    uploads = rbs_server.datastore.uploads
    backup = back_up(backup_type="incremental")
    assert (backup["read_mode"], backup["chain_reason"]) == ("full", "chain_reset")
    assert rbs_server.datastore.uploads == uploads, "nothing has changed since"


@pytest.mark.parametrize("fault", ["cut", "full", "token"])
def test_failed_backup_leaves_no_snapshot(api_as, back_up, guest, path, rbs_server, fault):
    if fault == "cut":
        rbs_server.chunks_until_cut = 0
    elif fault == "full":
        rbs_server.datastore.is_full = True
    else:
        rbs_server.tokens.clear()
    guest.write("first")
    backup = back_up()
    assert (backup["status"], backup["error"]) == ("failed", "The backup storage cannot be used now.")
    assert (backup["read_mode"], backup["verification_status"]) == (None, None)
    assert rbs_server.datastore.snapshots == {}


def test_backup_after_a_lost_worker_is_made_once(api_as, path, run_tasks, rbs_server, kill_worker_at):
    """The second attempt finds the snapshot that the first one finished."""
    for operation, count in (("end_backup", 1), ("delete_checkpoints", 2)):
        api_as("owner", "POST", f"{path}/backups", json={"backup_type": "full"})
        task = session.query(Task).filter_by(kind="backup_create", status="queued").one()
        kill_worker_at(task, operation)
        assert requeue_to_new_worker(task).status == "completed"
        backup = api_as("owner", "GET", f"{path}/backups").json["data"][0]
        assert backup["status"] == "complete"
        assert len(rbs_server.datastore.snapshots) == count


def test_deletion_deletes_the_snapshot(api_as, back_up, find_backup, path, rbs_server):
    backup = back_up()
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    assert find_backup(backup) is None
    assert rbs_server.datastore.snapshots == {}


def test_refused_deletion_keeps_the_backup(api_as, back_up, find_backup, path, rbs_server):
    backup = back_up()
    rbs_server.tokens["panel@pbs!backups"][1]["/datastore/backups"] = {"Datastore.Backup"}
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (422, "delete_not_dispatched")
    assert find_backup(backup).delete_claimed_at is None


def test_deletion_without_answer_is_reconciled(api_as, back_up, find_backup, path, rbs_server):
    backup = back_up()
    rbs_server.is_answer_lost = True
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (503, "delete_dispatch_unconfirmed")
    rbs_server.is_answer_lost = False
    reconcile_deletions()
    assert find_backup(backup) is None


def test_protection_is_applied_on_the_server(api_as, back_up, path, rbs_server, run_tasks, run_comparison):
    """BAK-09"""
    backup = back_up()
    [snapshot] = rbs_server.datastore.snapshots.values()
    for protected in (True, False):
        answer = api_as("owner", "PATCH", f"{path}/backup/{backup['id']}/protected", json={"protected": protected})
        assert answer.status_code == 200, answer.text
        run_tasks()
        assert snapshot.is_protected is protected
    rbs_server.stop()
    api_as("owner", "PATCH", f"{path}/backup/{backup['id']}/protected", json={"protected": True})
    run_tasks()
    rbs_server.replace_certificate()


def test_missing_protection_is_applied_by_comparison(api_as, back_up, path, rbs_server, run_tasks, run_comparison):
    backup = back_up()
    session.query(InstanceBackup).update({"protected": True})
    session.commit()
    assert run_comparison() == "completed"
    [snapshot] = rbs_server.datastore.snapshots.values()
    assert snapshot.is_protected
    assert backup["protected"] is False


def test_new_backup_is_verified_by_the_server(api_as, back_up, path, rbs_server, change_settings):
    """BAK-03, DST-11"""
    change_settings(verify_after_backup=True)
    back_up()
    rbs_snapshots.poll_verifications()
    [row] = api_as("owner", "GET", f"{path}/backups").json["data"]
    assert row["verification_status"] == "none"
    rbs_server.datastore.run_verifications()
    rbs_snapshots.poll_verifications()
    [row] = api_as("owner", "GET", f"{path}/backups").json["data"]
    assert (row["verification_status"], row["damaged"]) == ("ok", False)
    assert row["verified_at"]
    for result, count in (("ok", 1), ("none", 0), ("failed", 0)):
        assert len(api_as("owner", "GET", f"/api/backups?verification={result}").json["data"]) == count


def test_failed_verification_marks_the_backup(api_as, back_up, guest, path, rbs_server, run_comparison):
    """BAK-03"""
    backup = back_up()
    [key] = rbs_server.datastore.snapshots
    for digest in list(rbs_server.datastore.chunks)[:1]:
        del rbs_server.datastore.chunks[digest]
    rbs_server.datastore.pending_verifications.append(key)
    rbs_server.datastore.run_verifications()
    assert run_comparison() == "completed"
    [row] = api_as("owner", "GET", f"{path}/backups").json["data"]
    assert (row["id"], row["verification_status"], row["damaged"]) == (backup["id"], "failed", True)
    again = back_up()
    assert again["chunks_reused"] == 0, "the server does not offer the chunks of a damaged snapshot"


def test_snapshot_that_is_gone_is_hidden(api_as, back_up, machine, path, rbs_server, run_comparison):
    """BAK-06, BAK-51"""
    backup = back_up()
    rbs_server.datastore.snapshots.clear()
    assert run_comparison() == "completed"
    row = api_as("admin", "GET", f"/api/v1/instance/{machine.id}/backup/{backup['id']}").json["data"]
    assert (row["missing_candidate_at"] is not None, row["missing_confirmed_at"]) == (True, None)
    make_candidates_older()
    assert run_comparison() == "completed"
    assert api_as("owner", "GET", "/api/backups").json["data"] == []
    row = api_as("admin", "GET", f"/api/v1/instance/{machine.id}/backup/{backup['id']}").json["data"]
    assert row["missing_on_rbs"] is True
    answer = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/backup/{backup['id']}/restore")
    assert (answer.status_code, answer.json["reason"]) == (422, "backup_missing")


def test_restore_of_a_snapshot_that_is_gone_changes_nothing(api_as, back_up, guest, path, rbs_server, run_tasks):
    """BAK-51"""
    guest.write("first")
    backup = back_up()
    rbs_server.datastore.snapshots.clear()
    task = restore(api_as, path, backup, run_tasks)
    assert task.status == "failed"
    assert guest.read() == "first"


def test_server_prunes_where_it_manages_retention(back_up, guest, rbs_server, change_settings, run_comparison):
    """DST-11: policies delete nothing there, and rows of pruned snapshots disappear."""
    change_settings(rbs_managed_retention=True)
    first = back_up()
    guest.write("second")
    second = back_up()
    assert instance_backups.find_by_id(first["id"]).destination.has_managed_retention
    rbs_server.datastore.delete(min(rbs_server.datastore.snapshots, key=lambda key: key[3]))
    run_comparison()
    make_candidates_older()
    run_comparison()
    assert [row.id for row in session.query(InstanceBackup)] == [second["id"]]
    rbs_server.datastore.snapshots.clear()
    run_comparison()
    make_candidates_older()
    run_comparison()
    assert [row.id for row in session.query(InstanceBackup)] == [second["id"]], "not where everything is gone"


def test_server_needs_no_verification_or_garbage_collection_by_workers(back_up, rbs_server, run_comparison):
    back_up()
    session.query(BackupRepository).one().initialized_at -= timedelta(days=60)
    session.commit()
    assert session.execute(backup_verification.select_due()).all() == []
    chunks = dict(rbs_server.datastore.chunks)
    rbs_server.requests.clear()
    assert run_comparison() == "completed"
    assert rbs_server.datastore.chunks == chunks
    assert {path for _, path in rbs_server.requests} == {"admin/datastore/backups/snapshots"}
