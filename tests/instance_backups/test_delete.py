"""Deleting backups: claimed with the request, gone when the storage has confirmed it."""

import pytest
from sqlalchemy import update

from panel.core import clock
from panel.core.db import session
from panel.models import BackupRepository, InstanceBackup, Task
from panel.services import backup_repositories, hypervisor_removal, instance_backups
from panel.workflows import waiting
from tests.support.task_queue import queued_calls, run_queued_calls
from tests.support.worker_faults import requeue_to_new_worker
from worker.backups import garbage
from worker.backups.errors import TargetFailed
from worker.backups.targets import LocalTarget
from worker.engine import runner
from worker.tasks import backup_repositories as repository_tasks

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture
def backup(back_up):
    return back_up()


@pytest.fixture
def fail_at(monkeypatch):
    """Return a function that lets a method of the target fail, before or after its effect."""

    def patch(method, *, after=False):
        real = getattr(LocalTarget, method)

        def fail(target, *args):
            if after:
                real(target, *args)
            raise TargetFailed("The target failed.")

        monkeypatch.setattr(LocalTarget, method, fail)
        return lambda: monkeypatch.setattr(LocalTarget, method, real)

    return patch


def test_backup_is_deleted_and_disappears(api_as, path, backup, folder, find_backup):
    """BAK-23, BAK-24, BAK-26"""
    point = folder / find_backup(backup).repository_id / "objects" / "points" / backup["id"]
    assert point.exists()
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json) == (200, {"success": True, "message": "Deletion of the backup requested."})
    assert not point.exists()
    assert find_backup(backup) is None
    assert api_as("owner", "GET", "/api/backups").json["data"] == []
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 404


def test_backups_are_deleted_on_every_surface(api_as, path, back_up, machine):
    rows = [back_up() for _ in range(4)]
    paths = [
        ("owner", f"/api/backup/{rows[0]['id']}"),
        ("admin", f"/api/v1/instance/{machine.id}/backup/{rows[1]['id']}"),
        ("admin", f"/api/v1/instance/{machine.id}/backups/{rows[2]['id']}"),
        ("owner", f"{path}/backup/{rows[3]['id']}"),
    ]
    for caller, operation in paths:
        assert api_as(caller, "DELETE", operation).status_code == 200, operation
    assert session.query(InstanceBackup).count() == 0


def test_claimed_backup_stays_listed_and_refuses_more(api_as, path, backup, no_workers, run_tasks, find_backup):
    """BAK-29, BAK-30"""
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    [row] = api_as("owner", "GET", "/api/backups").json["data"]
    assert row["deletion"] == "queued"
    for operation in (f"{path}/backup/{backup['id']}", f"/api/backup/{backup['id']}"):
        answer = api_as("owner", "DELETE", operation)
        assert (answer.status_code, answer.json["reason"]) == (409, "backup_being_deleted")
    answer = api_as("owner", "PATCH", f"{path}/backup/{backup['id']}/protected", json={"protected": True})
    assert (answer.status_code, answer.json["reason"]) == (409, "backup_being_deleted")
    run_tasks()
    assert find_backup(backup) is None


def test_deletion_is_running_while_the_storage_works(api_as, path, backup, monkeypatch):
    """BAK-30"""
    seen, real = [], LocalTarget.delete

    def watch(target, name):
        session.commit()
        seen.append(api_as("owner", "GET", f"/api/backup/{backup['id']}").json["backup"]["deletion"])
        real(target, name)

    monkeypatch.setattr(LocalTarget, "delete", watch)
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    assert seen == ["running"]


def test_storage_out_of_reach_leaves_nothing_claimed(api_as, path, backup, folder, find_backup, destination):
    """BAK-31"""
    repository = folder / find_backup(backup).repository_id
    repository.rename(folder / "away")
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (422, "delete_not_dispatched")
    assert find_backup(backup).delete_claimed_at is None
    destination.status = "unavailable"
    session.commit()
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (422, "delete_not_dispatched")
    assert find_backup(backup).delete_claimed_at is None
    (folder / "away").rename(repository)
    destination.status = "available"
    session.commit()
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    assert find_backup(backup) is None


def test_answer_tells_what_a_worker_process_has_changed(backup, find_backup):
    """BAK-31: the session of the request still has the rows as it wrote them."""
    row = find_backup(backup)
    task = instance_backups.claim(row, actor="tests")
    session.commit()
    for model, values in (Task, {"status": "failed", "error": "No."}), (InstanceBackup, {"delete_claimed_at": None}):
        statement = update(model).where(model.id.in_([task.id, row.id])).values(**values)
        session.execute(statement.execution_options(synchronize_session=False))
    session.commit()
    assert row.is_claimed
    assert instance_backups.get_outcome_error(task.id).reason == "delete_not_dispatched"


def test_request_waits_for_the_outcome_of_a_deletion_that_has_begun(api_as, path, backup, monkeypatch, fail_at):
    """BAK-32: a worker process marks the deletion as dispatched long before it fails."""

    def dispatch():
        values = update(InstanceBackup).values(delete_dispatched_at=clock.now())
        session.execute(values.execution_options(synchronize_session=False))

    steps = iter((dispatch, run_queued_calls))
    monkeypatch.setattr(waiting.time, "sleep", lambda _: next(steps)())
    fail_at("delete")
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (422, "delete_not_dispatched")
    assert next(steps, None) is None


def test_refused_deletion_releases_the_claim(api_as, path, backup, fail_at, find_backup):
    """The storage still has the point, so it is known that nothing was deleted."""
    restore = fail_at("delete")
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (422, "delete_not_dispatched")
    assert find_backup(backup).delete_claimed_at is None
    restore()
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200


def test_unknown_outcome_stays_claimed(api_as, path, backup, fail_at, find_backup):
    """BAK-32"""
    fail_at("delete", after=True)
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (503, "delete_dispatch_unconfirmed")
    row = api_as("owner", "GET", f"/api/backup/{backup['id']}").json["backup"]
    assert row["deletion"] == "unconfirmed"
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (409, "backup_being_deleted")


def test_worker_killed_during_deletion(api_as, path, backup, no_workers, find_backup, monkeypatch):
    """The next attempt deletes the point, or finds that it is gone."""

    class Killed(BaseException):
        pass

    real = LocalTarget.delete

    def die(target, name):
        real(target, name)
        raise Killed

    api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    task = session.query(Task).filter_by(kind="backup_delete").one()
    monkeypatch.setattr(LocalTarget, "delete", die)
    with pytest.raises(Killed):
        runner.run(task.id, "first worker")
    monkeypatch.setattr(LocalTarget, "delete", real)
    session.rollback()
    assert requeue_to_new_worker(task).status == "completed"
    assert find_backup(backup) is None


def test_protected_backup_is_not_deleted(api_as, path, backup, machine, find_backup):
    """BAK-27, BAK-33, BAK-34, BAK-37"""
    protection = f"{path}/backup/{backup['id']}/protected"
    for _ in range(2):
        answer = api_as("owner", "PATCH", protection, json={"protected": True})
        assert (answer.status_code, answer.json["backup"]["protected"]) == (200, True)
    for caller, operation in (
        ("owner", f"{path}/backup/{backup['id']}"),
        ("owner", f"/api/backup/{backup['id']}"),
        ("admin", f"/api/v1/instance/{machine.id}/backup/{backup['id']}"),
    ):
        answer = api_as(caller, "DELETE", operation)
        assert (answer.status_code, answer.json["reason"]) == (409, "backup_not_deletable")
    admin_path = f"/api/v1/instance/{machine.id}/backup/{backup['id']}/protected"
    assert api_as("admin", "PATCH", admin_path, json={"protected": False}).json["data"]["protected"] is False
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200


@pytest.mark.parametrize("value", [0, 1, "true", "false", None])
def test_protection_is_a_strict_boolean(api_as, path, backup, machine, value):
    """BAK-35"""
    for caller, prefix in (("owner", path), ("admin", f"/api/v1/instance/{machine.id}")):
        answer = api_as(caller, "PATCH", f"{prefix}/backup/{backup['id']}/protected", json={"protected": value})
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["protected"])
        assert api_as(caller, "PATCH", f"{prefix}/backup/{backup['id']}/protected", json={}).status_code == 422


def test_backup_of_another_instance_is_not_found(api_as, backup, cast):
    """BAK-36"""
    other = cast.instance()
    for caller, prefix in (("owner", "/api"), ("admin", "/api/v1")):
        path = f"{prefix}/instance/{other.id}/backup/{backup['id']}/protected"
        answer = api_as(caller, "PATCH", path, json={"protected": True})
        assert (answer.status_code, answer.json["reason"]) == (404, "backup_not_found")


def test_incomplete_backup_is_not_deleted(api_as, path, destination):
    api_as("owner", "POST", f"{path}/backups")
    backup = session.query(InstanceBackup).one()
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup.id}")
    assert (answer.status_code, answer.json["reason"]) == (409, "task_running")


def test_failed_backup_is_deleted(api_as, path, back_up, node, find_backup, run_tasks):
    api_as("owner", "POST", f"{path}/backups")
    task = session.query(Task).filter_by(kind="backup_create").one()
    api_as("owner", "POST", f"/api/task/{task.id}/cancel")
    run_tasks()
    [row] = api_as("owner", "GET", f"{path}/backups").json["data"]
    assert (row["status"], row["error"]) == ("failed", "The task was cancelled.")
    assert api_as("owner", "DELETE", f"{path}/backup/{row['id']}").status_code == 200
    assert find_backup(row) is None


def test_parent_of_remaining_backups(api_as, path, back_up, find_backup):
    rows = [back_up(backup_type="incremental") for _ in range(3)]
    api_as("owner", "DELETE", f"{path}/backup/{rows[1]['id']}")
    assert find_backup(rows[2]).parent_backup_id == rows[0]["id"]
    assert back_up(backup_type="incremental")["backup_type"] == "incremental"


def test_bulk_deletion_answers_each_backup(api_as, path, back_up, machine):
    """BLK-01, BLK-02, BLK-03, BLK-04, BLK-05, BLK-07, BLK-08, BLK-13, BLK-15"""
    good, protected = back_up(), back_up()
    api_as("owner", "PATCH", f"{path}/backup/{protected['id']}/protected", json={"protected": True})
    for caller, prefix in (("owner", path), ("admin", "/api/v1")):
        operation = f"{path}/backups/destroy" if caller == "owner" else "/api/v1/instance-backups/destroy"
        answer = api_as(caller, "POST", operation, json={"backups": [protected["id"], UNKNOWN_ID]})
        assert answer.status_code == 409
        assert "X-Failure-Status-Mapped" not in answer.headers
        assert answer.json["success"] is False
        rows = answer.json["data"]["results"]
        assert [(row["id"], row["status"], row["success"], row["reason"]) for row in rows] == [
            (protected["id"], 409, False, "backup_not_deletable"),
            (UNKNOWN_ID, 404, False, "backup_not_found"),
        ]
        assert all(row["message"] for row in rows)
        answer = api_as(caller, "POST", operation, json={"backups": [UNKNOWN_ID, protected["id"]]})
        assert answer.status_code == 404
        assert prefix
    answer = api_as("owner", "POST", f"{path}/backups/destroy", json={"backups": [protected["id"], good["id"]]})
    assert (answer.status_code, answer.json["data"]["queued"], answer.json["data"]["refused"]) == (409, 1, 1)
    assert [row["id"] for row in api_as("owner", "GET", "/api/backups").json["data"]] == [protected["id"]]
    api_as("owner", "PATCH", f"{path}/backup/{protected['id']}/protected", json={"protected": False})
    answer = api_as("owner", "POST", f"{path}/backups/destroy", json={"backups": [protected["id"]]})
    assert (answer.status_code, answer.json) == (
        200,
        {
            "success": True,
            "message": "Deletion requested for 1 backup, 0 refused.",
            "data": {
                "queued": 1,
                "refused": 0,
                "results": [
                    {
                        "id": protected["id"],
                        "status": 200,
                        "success": True,
                        "message": "Deletion of the backup requested.",
                    }
                ],
            },
        },
    )


def test_unconfirmed_row_makes_bulk_answer_503(api_as, path, back_up, fail_at):
    """BLK-06"""
    lost, protected = back_up(), back_up()
    api_as("owner", "PATCH", f"{path}/backup/{protected['id']}/protected", json={"protected": True})
    fail_at("delete", after=True)
    answer = api_as("owner", "POST", "/api/backups/destroy", json={"backups": [protected["id"], lost["id"]]})
    assert answer.status_code == 503
    assert [row["reason"] for row in answer.json["data"]["results"]] == [
        "backup_not_deletable",
        "delete_dispatch_unconfirmed",
    ]


def test_foreign_ids_are_refused_dropped_or_deleted(api_as, path, back_up, cast, machine, find_backup, run_tasks):
    """BLK-09, BLK-11, BLK-12, BLK-14"""
    own = back_up()
    foreign_instance = cast.instance("outsider")
    api_as(
        "outsider",
        "POST",
        f"/api/instance/{foreign_instance.id}/deploy",
        json={"image_id": cast.image.id, "password": "x" * 9},
    )
    run_tasks()
    api_as("outsider", "POST", f"/api/instance/{foreign_instance.id}/backups")
    run_tasks()
    foreign = api_as("outsider", "GET", "/api/backups").json["data"][0]
    answer = api_as("owner", "POST", f"{path}/backups/destroy", json={"backups": [foreign["id"]]})
    assert (answer.status_code, answer.json["data"]["results"][0]["reason"]) == (404, "backup_not_found")
    answer = api_as("owner", "POST", "/api/backups/destroy", json={"backups": [foreign["id"]]})
    assert (answer.status_code, answer.json["data"]) == (200, {"queued": 0, "refused": 0, "results": []})
    assert find_backup(foreign).delete_claimed_at is None
    answer = api_as("owner", "POST", "/api/backups/destroy", json={"backups": [own["id"], foreign["id"], own["id"]]})
    assert (answer.status_code, [row["id"] for row in answer.json["data"]["results"]]) == (200, [own["id"]])
    answer = api_as("admin", "POST", "/api/v1/instance-backups/destroy", json={"backups": [foreign["id"]]})
    assert (answer.status_code, answer.json["data"]["queued"]) == (200, 1)
    assert find_backup(foreign) is None


@pytest.mark.parametrize("body", [{}, {"backups": []}, {"backups": "x"}, {"backups": [7]}, {"backups": None}])
def test_malformed_bulk_request_is_refused(api_as, path, body):
    """BLK-10"""
    for caller, operation in (
        ("owner", "/api/backups/destroy"),
        ("owner", f"{path}/backups/destroy"),
        ("admin", "/api/v1/instance-backups/destroy"),
    ):
        answer = api_as(caller, "POST", operation, json=body)
        assert answer.status_code == 422
        assert next(iter(answer.json["errors"])).partition(".")[0] == "backups"


def destroy_instance(api_as, machine, **body):
    return api_as("admin", "DELETE", f"/api/v1/instance/{machine.id}", json=body)


def test_backups_outlive_the_instance(api_as, path, backup, machine, run_tasks, billing_terminate):
    """BAK-14, BAK-64, BIL-08"""
    assert billing_terminate(machine).status_code == 200
    run_tasks()
    [row] = api_as("owner", "GET", "/api/backups?instance_state=deleted").json["data"]
    assert (row["id"], row["instance_deleted"], row["instance_hostname"]) == (backup["id"], True, "web.example.com")
    assert api_as("owner", "GET", "/api/backups?instance_state=live").json["data"] == []
    assert api_as("owner", "DELETE", f"/api/backup/{backup['id']}").status_code == 200


@pytest.fixture
def billing_terminate(api_as):
    def terminate(machine, **body):
        return api_as("billing", "POST", f"/api/v1/billing/instance/{machine.id}/terminate", json=body)

    return terminate


@pytest.mark.parametrize("surface", ["admin", "billing"])
def test_backups_are_deleted_once_the_instance_is_destroyed(
    api_as, path, back_up, machine, run_tasks, surface, billing_terminate, find_backup
):
    """BIL-09, BAK-65, BAK-66"""
    gone, protected = back_up(), back_up()
    api_as("owner", "PATCH", f"{path}/backup/{protected['id']}/protected", json={"protected": True})
    destroy = (
        destroy_instance if surface == "admin" else (lambda _, machine, **body: billing_terminate(machine, **body))
    )
    assert destroy(api_as, machine, delete_backups="yes").status_code == 422
    assert destroy(api_as, machine, delete_backups=True).status_code == 200
    assert session.query(Task).filter_by(kind="backup_delete").count() == 0
    assert find_backup(gone).delete_claimed_at is None
    run_tasks()
    assert find_backup(gone) is None
    assert find_backup(protected).delete_claimed_at is None
    assert find_backup(protected).instance_deleted


def test_incomplete_backup_of_force_removed_hypervisor_is_deletable(api_as, path, machine, destination, cast):
    """Its task was failed without its failure handler, because the node is gone."""
    api_as("owner", "POST", f"{path}/backups")
    cast.node.status = "down"
    session.commit()
    hypervisor_removal.force_remove(cast.node, name=cast.node.name, actor="test")
    session.commit()
    [row] = api_as("owner", "GET", "/api/backups").json["data"]
    assert (row["status"], row["instance_deleted"]) == ("failed", True)
    assert api_as("owner", "DELETE", f"/api/backup/{row['id']}").status_code == 200
    assert session.query(InstanceBackup).count() == 0


def test_tasks_of_instance_do_not_include_deletions(api_as, path, backup, no_workers):
    """INS-29"""
    api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert session.query(Task).filter_by(kind="backup_delete").count() == 1
    for operation in (f"{path}/tasks", path):
        answer = api_as("owner", "GET", operation).json
        tasks = answer["data"] if "data" in answer else answer["tasks"]
        assert "backup_delete" not in {task["kind"] for task in tasks}


def test_space_of_deleted_backups_is_freed(api_as, path, back_up, folder, monkeypatch, run_tasks, guest):
    guest.write("one")
    row = back_up()
    repository = session.query(BackupRepository).one()
    packs = folder / repository.id / "objects" / "packs"
    api_as("owner", "DELETE", f"{path}/backup/{row['id']}")
    monkeypatch.setattr(garbage, "GRACE_SECONDS", 0)
    monkeypatch.setattr(repository_tasks, "GRACE_SECONDS", 0)
    assert [file for file in packs.rglob("*") if file.is_file()]
    for _ in range(2):
        repository.collected_at = None
        session.commit()
        repository_tasks.collect_due()
        run_tasks()
    assert [file for file in packs.rglob("*") if file.is_file()] == []
    task = session.query(Task).filter_by(kind="backup_collect_garbage").order_by(Task.id.desc()).first()
    assert (task.status, task.account_id) == ("completed", None)
    assert session.get(BackupRepository, repository.id).collected_at is not None
    repository_tasks.collect_due()
    assert not queued_calls, "once a day is enough"


def test_one_collection_at_a_time(back_up):
    back_up()
    repository = session.query(BackupRepository).one()
    assert backup_repositories.enqueue_collection(repository) is not None
    session.commit()
    assert backup_repositories.enqueue_collection(repository) is None
    run_queued_calls()
    assert instance_backups.find_by_id(UNKNOWN_ID) is None
