"""Copies of backups in a second destination: made, retained, removed, and restored from."""

import shutil
from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import BackupCopy, BackupRepository, BackupRestoreTest, InstanceBackup, Task
from panel.services import backup_copies, backup_destinations, backup_restore_tests
from tests.support.worker_faults import WorkerKilled, requeue_to_new_worker
from worker.backups.errors import TargetFailed
from worker.backups.garbage import GRACE_SECONDS
from worker.backups.targets import LocalTarget
from worker.engine import runner
from worker.tasks import backup_copies as copy_tasks
from worker.tasks import backup_repositories, backup_verification
from worker.tasks import backup_restore_tests as restore_test_tasks

COPIES = "/api/v1/backup-copies"


@pytest.fixture
def second_folder(tmp_path):
    return tmp_path / "offsite"


@pytest.fixture
def second(destination, second_folder, run_tasks):
    """A destination to which the backups of the first one are copied, for 30 days."""
    second = backup_destinations.create(name="offsite", storage_type="local", config={"path": str(second_folder)})
    second.all_hypervisors = False
    backup_destinations.update(destination, copy_to_id=second.id, copy_retention_days=30)
    session.commit()
    run_tasks()
    return second


@pytest.fixture
def find_copy(rolled_back_app):
    """Return a function that reads the only copy again."""

    def find():
        session.expire_all()
        return session.query(BackupCopy).one()

    return find


@pytest.fixture
def request_backup(api_as, path):
    """Return a function that requests a backup, runs its task only, and returns the task of its copy."""

    def request():
        assert api_as("owner", "POST", f"{path}/backups").status_code == 200
        task = session.query(Task).filter_by(kind="backup_create", status="queued").one()
        runner.run(task.id, "worker")
        return session.query(Task).filter_by(kind="backup_copy", status="queued").one()

    return request


@pytest.fixture
def restore(api_as, path, run_tasks):
    """Return a function that restores a backup as the customer and returns the task."""

    def request(backup):
        answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore")
        assert answer.status_code == 200, answer.text
        run_tasks()
        return session.get(Task, answer.json["task_id"], populate_existing=True)

    return request


def list_stored(folder, kind):
    return sorted(file for file in folder.glob(f"*/objects/{kind}/**/*") if file.is_file())


def let_date_pass(copy):
    copy.retained_until = clock.now() - timedelta(seconds=1)
    session.commit()


def test_each_backup_is_copied_once_and_shown(api_as, second, second_folder, back_up, guest):
    guest.write("first")
    backup = back_up()
    (row,) = api_as("admin", "GET", COPIES).json["data"]
    assert (row["status"], row["backup_id"], row["error"]) == ("complete", backup["id"], None)
    assert (row["destination_name"], row["is_locked"], row["backup_deleted"]) == ("offsite", False, False)
    assert row["size"] > 0
    shown = api_as("owner", "GET", f"/api/backup/{backup['id']}").json["backup"]["copies"]
    assert [(copy["status"], copy["retained_until"]) for copy in shown] == [("complete", row["retained_until"])]
    first_packs = list_stored(second_folder, "packs")
    guest.write("second")
    back_up(backup_type="incremental")
    rows = api_as("admin", "GET", f"{COPIES}?status=complete&backup_storage_id={second.id}").json["data"]
    assert len(rows) == len(list_stored(second_folder, "points")) == 2
    assert set(first_packs) < set(list_stored(second_folder, "packs")), "only what is new was copied"
    assert rows[0]["size"] < rows[1]["size"]
    tasks = session.query(Task).filter_by(kind="backup_copy").all()
    assert {(task.status, task.account_id) for task in tasks} == {("completed", None)}


def test_nobody_deletes_a_copy_before_its_date(api_as, second, second_folder, back_up, run_tasks, find_copy, path):
    backup = back_up()
    copy = find_copy()
    assert abs(copy.retained_until - clock.now() - timedelta(days=30)) < timedelta(minutes=5)
    copy_path = f"/api/v1/backup-copy/{copy.id}"
    answer = api_as("admin", "DELETE", copy_path)
    assert (answer.status_code, answer.json["reason"]) == (409, "copy_retained")
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    assert session.get(InstanceBackup, backup["id"]) is None
    copy_tasks.start_due()
    run_tasks()
    assert (find_copy().status, len(list_stored(second_folder, "points"))) == ("complete", 1)
    assert api_as("admin", "DELETE", copy_path).json["reason"] == "copy_retained"
    backup_copies.enqueue(find_copy(), "backup_copy_delete")  # a task of an operator that should not exist
    session.commit()
    run_tasks()
    assert len(list_stored(second_folder, "points")) == 1


def test_copy_goes_when_its_backup_is_gone_and_its_date_is_over(
    api_as, second, second_folder, back_up, run_tasks, find_copy, path, monkeypatch
):
    backup = back_up()
    let_date_pass(find_copy())
    copy_tasks.start_due()
    run_tasks()
    assert find_copy().status == "complete", "as long as the backup exists"
    api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    copy_tasks.start_due()
    run_tasks()
    assert session.query(BackupCopy).count() == 0
    assert list_stored(second_folder, "points") == []
    assert list_stored(second_folder, "packs") != []
    repository = session.query(BackupRepository).filter(BackupRepository.copy_of_id.is_not(None)).one()
    monkeypatch.setattr(backup_repositories, "GRACE_SECONDS", -1.0)
    assert GRACE_SECONDS > 0
    for _ in range(2):  # announced, then deleted
        repository.collected_at = None
        session.commit()
        backup_repositories.collect_due()
        run_tasks()
    assert list_stored(second_folder, "packs") == []


def test_restore_reads_the_copy_when_the_first_destination_is_gone(
    second, destination, folder, back_up, restore, guest, api_as, run_tasks
):
    guest.write("before")
    backup = back_up()
    shutil.rmtree(folder)
    guest.write("after")
    task = restore(backup)
    assert (task.status, task.error) == ("completed", None)
    assert guest.read() == "before"
    guest.write("later")
    destination.status = "unavailable"
    session.commit()
    assert restore(backup).status == "completed"
    assert guest.read() == "before"
    body = {"backup_id": backup["id"], "name": "from copy"}
    session.expunge_all()
    answer = api_as("owner", "POST", "/api/images", json=body)
    run_tasks()
    assert session.query(Task).filter_by(kind="backup_image").one().status == "completed", answer.text


def test_restore_reads_damaged_chunks_from_the_copy(api_as, second, folder, back_up, restore, guest, find_backup):
    """The damage is recorded: the repository is verified, and the next backup stores the chunks again."""
    guest.write("before")
    backup = back_up()
    for pack in list_stored(folder, "packs"):
        pack.write_bytes(bytes(pack.stat().st_size))
    guest.write("after")
    assert restore(backup).status == "completed"
    assert guest.read() == "before"
    assert session.query(Task).filter_by(kind="backup_verify").one().status == "completed"
    assert find_backup(backup).damaged
    assert not find_backup(back_up()).damaged


def test_restore_test_reads_the_copy(second, folder, back_up, find_backup, run_tasks, monkeypatch):
    backup = back_up()
    shutil.rmtree(folder)
    row = backup_restore_tests.start(find_backup(backup), actor="test")
    session.commit()
    monkeypatch.setattr(restore_test_tasks, "POLL_SECONDS", 0)
    run_tasks()
    assert session.get(BackupRestoreTest, row.id, populate_existing=True).status == "passed"


def test_destination_with_copies_is_no_default(api_as, second, destination, back_up, path):
    """Its backups would have no copy and could be deleted. It can still be chosen or assigned."""
    second.all_hypervisors = True
    second.created_at, destination.created_at = destination.created_at, second.created_at
    destination.enabled = False
    session.commit()
    answer = api_as("owner", "POST", f"{path}/backups")
    assert (answer.status_code, answer.json["reason"]) == (409, "no_backup_destination")
    destination.enabled = True
    session.commit()
    assert back_up()["destination_name"] == destination.name


def test_missing_backup_with_a_copy_stays_visible(api_as, second, folder, back_up, find_backup, restore, guest):
    guest.write("before")
    backup = back_up()
    row = find_backup(backup)
    row.missing_confirmed_at = clock.now()
    session.commit()
    guest.write("after")
    assert restore(backup).status == "completed"
    assert guest.read() == "before"
    session.query(BackupCopy).one().status = "failed"
    session.commit()
    assert api_as("owner", "GET", f"/api/backup/{backup['id']}").status_code == 404


def test_recovered_backup_has_its_predecessor(api_as, second, back_up, find_backup, path):
    first, backup = back_up(), back_up(backup_type="incremental")
    copy = session.query(BackupCopy).filter_by(backup_id=backup["id"]).one()
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    assert api_as("admin", "POST", f"/api/v1/backup-copy/{copy.id}/recover").status_code == 200
    assert find_backup(backup).parent_backup_id == first["id"]


def test_deleted_backup_is_recovered_from_its_copy(
    api_as, second, second_folder, folder, back_up, restore, guest, find_copy, path, run_tasks
):
    guest.write("before")
    backup = back_up()
    recover = f"/api/v1/backup-copy/{find_copy().id}/recover"
    assert api_as("admin", "POST", recover).json["reason"] == "backup_exists"
    api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    shutil.rmtree(folder)
    answer = api_as("admin", "POST", recover)
    assert answer.json["data"] == {"backup_id": backup["id"]}
    shown = api_as("owner", "GET", f"/api/backup/{backup['id']}").json["backup"]
    assert (shown["destination_name"], shown["created_at"]) == ("offsite", backup["created_at"])
    guest.write("after")
    assert restore(backup).status == "completed"
    assert guest.read() == "before"
    let_date_pass(find_copy())
    copy_path = f"/api/v1/backup-copy/{find_copy().id}"
    assert api_as("admin", "DELETE", copy_path).json["reason"] == "backup_recovered"
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    assert session.get(InstanceBackup, backup["id"]) is None
    assert len(list_stored(second_folder, "points")) == 1, "deleting a recovered backup leaves the copy"
    assert api_as("admin", "DELETE", copy_path).status_code == 200
    run_tasks()
    assert list_stored(second_folder, "points") == []


class Faults:
    """Makes faults of the objects that are stored in the second destination."""

    def __init__(self, folder):
        self.folder, self.stored, self.fault = folder, 0, None

    def put(self, target, name, data):
        if self.folder in target.directory.parents and name.startswith(("packs", "index", "points", "repository")):
            self.stored += 1
            if self.fault:
                data = self.fault(target, self.stored, name, data)
        real_put(target, name, data)


real_put = LocalTarget.put


@pytest.fixture
def faults(second_folder, monkeypatch):
    faults = Faults(second_folder)
    monkeypatch.setattr(LocalTarget, "put", lambda target, name, data: faults.put(target, name, data))
    return faults


@pytest.mark.parametrize("killed_at", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [False, True])
def test_killed_worker_leaves_no_copy_and_the_next_one_ends_it(
    second, second_folder, request_backup, faults, find_copy, killed_at, after
):
    """At each object: the repository, the pack, its index, the manifest."""
    task = request_backup()

    def kill(target, number, name, data):
        if number == killed_at:
            if after:
                real_put(target, name, data)
            raise WorkerKilled
        return data

    faults.fault = kill
    with pytest.raises(WorkerKilled):
        runner.run(task.id, "killed worker")
    session.rollback()
    assert find_copy().status == "copying"
    assert len(list_stored(second_folder, "points")) == (killed_at == 4 and after)
    faults.fault = None
    assert requeue_to_new_worker(task).status == "completed"
    assert find_copy().status == "complete"
    assert len(list_stored(second_folder, "points")) == 1


def refuse(target, number, name, data):
    raise TargetFailed(f"The target failed at {name}: No space left on device")


def change_pack(target, number, name, data):
    return data[:-1] + bytes([data[-1] ^ 1]) if name.startswith("packs") else data


def change_manifest(target, number, name, data):
    return data[:-1] + bytes([data[-1] ^ 1]) if name.startswith("points") else data


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(refuse, "No space left on device"), (change_pack, "another content"), (change_manifest, "another content")],
)
def test_faulty_second_destination_fails_the_copy_with_its_reason(
    api_as, second, second_folder, back_up, faults, find_copy, run_tasks, fault, reason
):
    faults.fault = fault
    backup = back_up()
    assert backup["status"] == "complete"
    copy = find_copy()
    assert (copy.status, copy.completed_at) == ("failed", None)
    assert reason in str(copy.error)
    assert list_stored(second_folder, "points") == []
    copy_tasks.start_due()
    assert find_copy().status == "failed", "the next automatic attempt is an hour later"
    faults.fault = None
    assert api_as("admin", "POST", f"/api/v1/backup-copy/{copy.id}/retry").status_code == 200
    run_tasks()
    assert find_copy().status == "complete"
    answer = api_as("admin", "POST", f"/api/v1/backup-copy/{copy.id}/retry")
    assert (answer.status_code, answer.json["reason"]) == (409, "copy_not_failed")


def test_failed_copy_is_tried_again_after_an_hour(second, second_folder, request_backup, find_copy, run_tasks):
    second_folder.mkdir(exist_ok=True)
    request_backup()
    shutil.rmtree(second_folder)
    second_folder.write_text("not a directory")
    run_tasks()
    assert find_copy().status == "failed"
    second_folder.unlink()
    session.query(BackupCopy).update({"updated_at": clock.now() - timedelta(hours=2)})
    session.commit()
    copy_tasks.start_due()
    run_tasks()
    assert find_copy().status == "complete"


def test_damaged_source_makes_no_copy(second, second_folder, folder, request_backup, find_copy, run_tasks):
    request_backup()
    for pack in list_stored(folder, "packs"):
        pack.write_bytes(bytes(pack.stat().st_size))
    run_tasks()
    assert find_copy().status == "failed"
    assert list_stored(second_folder, "points") == []
    assert list_stored(folder, "damaged") != [], "the next backup stores these chunks again"


def test_verification_finds_a_damaged_copy_and_the_retry_repairs_it(
    second, second_folder, back_up, find_copy, run_tasks
):
    back_up()
    for pack in list_stored(second_folder, "packs"):
        pack.write_bytes(bytes(pack.stat().st_size))
    session.query(BackupRepository).update({"initialized_at": clock.now() - timedelta(days=31)})
    session.commit()
    backup_verification.verify_due()
    run_tasks()
    copy = find_copy()
    assert (copy.status, copy.is_retained) == ("failed", True)
    copy.updated_at = clock.now() - timedelta(hours=2)
    session.commit()
    copy_tasks.start_due()
    run_tasks()
    assert find_copy().status == "complete"


def test_copy_that_disappeared_is_found_at_the_second_comparison_and_made_again(
    second, second_folder, back_up, find_copy, run_tasks
):
    back_up()
    for point in list_stored(second_folder, "points"):
        point.unlink()

    def collect_garbage():
        session.query(BackupRepository).update({"collected_at": None})
        session.commit()
        backup_repositories.collect_due()
        run_tasks()
        return find_copy()

    assert (collect_garbage().status, find_copy().missing_at is None) == ("complete", False)
    find_copy().missing_at -= timedelta(hours=2)
    assert collect_garbage().status == "failed"
    session.query(BackupCopy).update({"updated_at": clock.now() - timedelta(hours=2)})
    session.commit()
    copy_tasks.start_due()
    run_tasks()
    assert (find_copy().status, len(list_stored(second_folder, "points"))) == ("complete", 1)


def test_settings_are_refused_with_the_field(api_as, second, destination):
    """A backup server has copies of its own, and a destination in use is not removed."""
    base = "/api/v1/hypervisor/backup-storage"
    config = {
        "host": "pbs.example.com",
        "datastore": "d",
        "auth_id": "p@pbs!t",
        "token_secret": "s",
        "fingerprint": "AB:" * 31 + "CD",
    }
    server = {"name": "pbs", "storage_type": "rbs", "config": config}
    for body in (
        {"copy_to_id": destination.id},
        {"copy_to_id": "0199c0a8-0000-7000-8000-00000000000a"},
        {"copy_retention_days": 0},
        {"storage_type": "rbs", "config": config},
    ):
        answer = api_as("admin", "PATCH", f"{base}/{destination.id}", json=body)
        assert (answer.status_code, bool(answer.json["errors"])) == (422, True), body
    answer = api_as("admin", "POST", f"{base}s", json=server | {"copy_to_id": second.id})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["copy_to_id"])
    answer = api_as("admin", "PATCH", f"{base}/{second.id}", json={"storage_type": "rbs", "config": config})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["storage_type"])
    answer = api_as("admin", "DELETE", f"{base}/{second.id}")
    assert (answer.status_code, answer.json["reason"]) == (409, "destination_in_use")
    shown = api_as("admin", "GET", f"{base}/{destination.id}").json["data"]
    assert (shown["copy_to_id"], shown["copy_retention_days"]) == (second.id, 30)
    answer = api_as("admin", "PATCH", f"{base}/{destination.id}", json={"copy_to_id": None})
    assert answer.json["data"]["copy_to_id"] is None


def test_pages_show_copies_to_operators_and_customers(
    api_as, browser_as, second, destination, back_up, find_copy, path, run_tasks
):
    """The form, the destination's page, the backup's page, the list with its actions, and the customer's row."""
    backup = back_up()
    operator, copy = browser_as("admin"), find_copy()
    form = operator.get(f"/admin/backup-destinations/{destination.id}/edit").text
    assert f'<option value="{second.id}" selected>offsite</option>' in form
    assert f'<option value="{destination.id}"' not in form, "not to itself"
    fields = {"name": "backups-1", "copy_to_id": "", "copy_retention_days": "7", "hypervisor_ids": ""}
    assert operator.post(f"/admin/backup-destinations/{destination.id}/edit", data=fields).status_code == 303
    session.expire_all()
    assert (destination.copy_to_id, destination.copy_retention_days) == (None, 7)
    assert "1 copy of a backup" in operator.get(f"/admin/backup-destinations/{second.id}").text
    assert "1 copy<" in operator.get("/admin/backup-destinations").text
    assert "Cannot be deleted before" in operator.get(f"/admin/backups/{backup['id']}").text
    assert "The copy is kept until" in browser_as("owner").get("/backups").text

    listed = operator.get("/admin/backup-copies?status=complete").text
    assert copy.backup_name in listed
    assert copy.backup_name not in operator.get("/admin/backup-copies?status=failed").text
    answer = operator.post(f"/admin/backup-copies/{copy.id}/delete", headers={"HX-Request": "true"})
    assert answer.status_code == 409
    assert find_copy().status == "complete"
    api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert "Backup deleted" in operator.get("/admin/backup-copies").text
    operator.post(f"/admin/backup-copies/{copy.id}/recover")
    assert session.get(InstanceBackup, backup["id"]) is not None
    find_copy().status = "failed"
    session.commit()
    assert "copy of a backup failed" in operator.get("/admin").text
