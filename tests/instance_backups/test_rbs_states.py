"""What a remote backup server reports of its snapshots: protection, verification, and what it lacks."""

from datetime import timedelta

import pytest

from panel.core.db import session
from panel.models import BackupRepository, InstanceBackup
from panel.services import backup_destinations, backup_verification, instance_backups
from tests.instance_backups.rbs_destination import destination, restore, run_comparison  # noqa: F401  (fixtures)
from tests.support.rbs_server import rbs_server  # noqa: F401  (fixture)
from worker.tasks import rbs_snapshots


@pytest.fixture
def change_settings(destination):
    """Return a function that changes settings of the destination."""

    def change(**config):
        backup_destinations.update(destination, config=config)
        session.commit()

    return change


def make_candidates_older():
    for backup in session.query(InstanceBackup).filter(InstanceBackup.missing_candidate_at.is_not(None)):
        backup.missing_candidate_at -= timedelta(hours=1)
    session.commit()


def test_protection_is_applied_on_the_server(api_as, back_up, path, rbs_server, run_tasks):
    """BAK-09"""
    backup = back_up()
    [snapshot] = rbs_server.datastore.snapshots.values()
    for protected in (True, False):
        answer = api_as("owner", "PATCH", f"{path}/backup/{backup['id']}/protected", json={"protected": protected})
        assert answer.status_code == 200, answer.text
        run_tasks()
        assert snapshot.is_protected is protected


def test_missing_protection_is_applied_by_comparison(back_up, rbs_server, run_comparison):
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
