"""The queue of backups, and reconciling operations whose outcome is not known."""

import pytest
from sqlalchemy.exc import OperationalError

from panel.core.db import session
from panel.models import Task
from tests.support.worker_faults import requeue_to_new_worker
from worker.backups.errors import TargetFailed
from worker.backups.targets import LocalTarget
from worker.tasks import instance_backups as worker_tasks

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture
def reconcile(api_as):
    return lambda task: api_as("admin", "POST", f"/api/v1/backup-dispatch/{getattr(task, 'id', task)}/reconcile")


@pytest.fixture
def delete_unconfirmed(api_as, path, back_up, monkeypatch):
    """Return a function that deletes a backup so that the outcome is not known: the point is gone, or still there."""

    def delete(*, is_gone):
        backup = back_up()
        real_delete, real_stat = LocalTarget.delete, LocalTarget.stat

        def fail(target, name):
            if is_gone:
                real_delete(target, name)
            raise TargetFailed("No answer.")

        monkeypatch.setattr(LocalTarget, "delete", fail)
        monkeypatch.setattr(LocalTarget, "stat", fail_always)
        answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
        assert answer.json["reason"] == "delete_dispatch_unconfirmed"
        monkeypatch.setattr(LocalTarget, "delete", real_delete)
        monkeypatch.setattr(LocalTarget, "stat", real_stat)
        return backup, session.query(Task).filter_by(kind="backup_delete").one()

    return delete


def fail_always(*_):
    raise TargetFailed("No answer.")


@pytest.mark.parametrize("is_gone", [True, False])
def test_deletion_is_reconciled(api_as, path, delete_unconfirmed, reconcile, find_backup, is_gone):
    """REC-01, REC-06"""
    backup, task = delete_unconfirmed(is_gone=is_gone)
    answer = reconcile(task)
    state = "done" if is_gone else "not_done"
    assert answer.json["data"] == {"kind": "backup_delete", "operation_id": task.id, "state": state}
    assert (find_backup(backup) is None) == is_gone
    assert reconcile(task).json["data"]["state"] == state
    if not is_gone:
        assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
        assert find_backup(backup) is None


@pytest.mark.parametrize("is_gone", [True, False])
def test_worker_reconciles_by_itself(delete_unconfirmed, find_backup, is_gone):
    backup, _ = delete_unconfirmed(is_gone=is_gone)
    worker_tasks.reconcile_deletions()
    assert (find_backup(backup) is None) == is_gone
    assert is_gone or find_backup(backup).delete_claimed_at is None


def test_silent_destination_leaves_the_outcome_unknown(delete_unconfirmed, reconcile, find_backup, monkeypatch):
    backup, task = delete_unconfirmed(is_gone=True)
    monkeypatch.setattr(LocalTarget, "stat", fail_always)
    times = iter(range(1000))
    monkeypatch.setattr("panel.workflows.waiting.time.monotonic", lambda: next(times))
    assert reconcile(task).json["data"]["state"] == "unknown"
    assert find_backup(backup).delete_claimed_at is not None


def test_operation_that_has_not_begun_is_revoked(api_as, path, machine, destination, reconcile, run_tasks, back_up):
    """REC-02, REC-03"""
    backup = back_up()
    api_as("owner", "POST", f"{path}/backups")
    create = session.query(Task).filter_by(kind="backup_create", status="queued").one()
    assert reconcile(create).json["data"]["state"] == "revoked"
    run_tasks()
    assert session.get(Task, create.id).status == "cancelled"
    assert [row["status"] for row in api_as("owner", "GET", f"{path}/backups").json["data"]] == ["failed", "complete"]
    restore = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore").json["task_id"]
    assert reconcile(restore).json["data"] == {"kind": "backup_restore", "operation_id": restore, "state": "revoked"}
    run_tasks()
    assert (session.get(Task, restore).status, reconcile(restore).json["data"]["state"]) == ("cancelled", "not_done")
    done = session.query(Task).filter_by(kind="backup_create", status="completed").one()
    assert reconcile(done).json["data"]["state"] == "done"


def test_revoked_deletion_releases_the_claim(api_as, path, back_up, no_workers, reconcile, run_tasks, find_backup):
    """REC-03"""
    backup = back_up()
    api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    task = session.query(Task).filter_by(kind="backup_delete").one()
    assert reconcile(task).json["data"]["state"] == "revoked"
    run_tasks()
    assert find_backup(backup).delete_claimed_at is None


def test_running_operation_is_live(api_as, path, destination, reconcile):
    """REC-04"""
    api_as("owner", "POST", f"{path}/backups")
    task = session.query(Task).filter_by(kind="backup_create").one()
    task.status, task.worker = "running", "a worker"
    session.commit()
    answer = reconcile(task)
    assert (answer.status_code, answer.json["reason"], answer.json["data"]) == (
        409,
        "operation_live",
        {"state": "running"},
    )


def test_operation_without_its_record_is_not_revoked(api_as, path, destination, reconcile, run_tasks, monkeypatch):
    """REC-05"""
    api_as("owner", "POST", f"{path}/backups")
    task = session.query(Task).filter_by(kind="backup_create").one()

    def lose_database(*_, **__):
        raise OperationalError("UPDATE", {}, Exception("no connection"))

    with monkeypatch.context() as patched:
        patched.setattr(worker_tasks, "record_point", lose_database)
        run_tasks()
    answer = reconcile(task)
    assert (answer.status_code, answer.json["reason"], answer.json["data"]) == (
        409,
        "remote_done_callback_unconfirmed",
        {"state": "running"},
    )
    assert requeue_to_new_worker(task).status == "completed"
    assert reconcile(task).json["data"]["state"] == "done"
    [row] = api_as("owner", "GET", f"{path}/backups").json["data"]
    assert row["created"] is True


def test_unknown_operation_is_not_found(reconcile, machine):
    """REC-07"""
    assert reconcile(UNKNOWN_ID).status_code == 404
    deploy = session.query(Task).filter_by(kind="instance_deploy").first()
    assert reconcile(deploy).status_code == 404, "not an operation on a backup"


def test_queue_shows_open_backups(api_as, path, destination, machine, run_tasks, cast):
    api_as("owner", "POST", f"{path}/backups")
    [row] = api_as("owner", "GET", f"{path}/backup-queue").json["data"]
    assert (row["kind"], row["status"], row["instance_id"]) == ("backup_create", "queued", machine.id)
    assert api_as("outsider", "GET", f"{path}/backup-queue").status_code == 404
    [admin_row] = api_as("admin", "GET", "/api/v1/instance/backup-queue/jobs").json["data"]
    assert admin_row["id"] == row["id"]
    job = f"/api/v1/instance/backup-queue/job/{row['id']}"
    assert api_as("admin", "DELETE", job).status_code == 200
    run_tasks()
    assert api_as("owner", "GET", f"{path}/backup-queue").json["data"] == []
    logs = api_as("admin", "GET", f"{job}/logs").json["data"]["logs"]
    assert logs[-1]["message"] == "The task was cancelled."
    assert api_as("admin", "DELETE", f"/api/v1/instance/backup-queue/job/{UNKNOWN_ID}").status_code == 404
