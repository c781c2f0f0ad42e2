"""Backups of a running machine on a remote backup server."""

import pytest

from panel.core.db import session
from panel.models import BackupRepository, Image, ManagedBackupUsage, Task
from panel.services.media import image_files
from tests.instance_backups.rbs_destination import destination, restore  # noqa: F401  (fixture)
from tests.support.rbs_server import rbs_server  # noqa: F401  (fixture)
from tests.support.worker_faults import requeue_to_new_worker
from worker.tasks import backup_repositories as repository_tasks
from worker.tasks.instance_backups import reconcile_deletions


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


def test_managed_backups_are_what_was_sent(back_up, guest, find_backup, cast, run_tasks, api_as):
    """HVG-04: `managed_backups_billed`. A backup server has the chunks to itself."""
    guest.write("first")
    backup = find_backup(back_up(backup_type="full"))
    backup.managed_group_id, size = cast.location.id, backup.size
    for is_deleted in (False, True):
        if is_deleted:
            assert api_as("owner", "DELETE", f"/api/backup/{backup.id}").status_code == 200
        session.query(BackupRepository).one().collected_at = None
        session.commit()
        repository_tasks.collect_due()
        run_tasks()
        assert session.query(ManagedBackupUsage).one().bytes == (0 if is_deleted else size)
