"""Backups of volumes: through the machine that uses the volume, or of a volume in no machine, and restoring them."""

import pytest

from panel.core.db import session
from panel.models import InstanceBackup, Task, Volume
from panel.services import backup_destinations, settings
from tests.support.team import add_member  # noqa: F401  (fixture)
from tests.support.worker_faults import requeue_to_new_worker
from worker.backups.errors import TargetFailed
from worker.backups.repository import Repository
from worker.backups.targets import LocalTarget
from worker.tasks import backup_repositories

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def run_tasks_while_waiting(inline_workers, destination):
    """Run queued tasks while a request waits for a result."""


@pytest.fixture
def content(node):
    """Functions that write a file to a volume's disk, as a guest does, and read it."""

    class Content:
        def write(self, volume, text):
            with node.state.transaction() as db:
                values = volume.storage.name, volume.disk_name, "/file", text
                db.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?, ?)", values)

        def read(self, volume):
            rows = node.state.rows("SELECT text FROM written WHERE disk = ? AND path = '/file'", volume.disk_name)
            return rows[0]["text"] if rows else None

    return Content()


@pytest.fixture
def back_up(call_storage_api, run_tasks):
    """Return a function that backs up a volume and returns its row in the volume."""

    def request(volume, **body):
        answer = call_storage_api("POST", f"volume/{volume.id}/backup", **body)
        assert answer.status_code == 200, answer.text
        queue = answer.json["queue"]
        assert (queue["operation"], queue["source_id"], queue["status"]) == ("volume_backup", volume.id, "queued")
        run_tasks()
        return call_storage_api("GET", f"volume/{volume.id}").json["volume"]["backups"][-1]

    return request


@pytest.fixture
def restore(call_storage_api, run_tasks):
    """Return a function that restores a backup, in place by default, and returns the task."""

    def request(volume, backup, *, run=True, **body):
        path = f"volume/{volume.id}/backup/{backup['id']}/restore"
        answer = call_storage_api("POST", path, **{"mode": "in_place"} | body)
        assert answer.status_code == 200, answer.text
        if run:
            run_tasks()
        return session.get(Task, answer.json["queue"]["id"], populate_existing=True)

    return request


def find_row(backup):
    return session.get(InstanceBackup, backup["id"], populate_existing=True)


def test_detached_volume_is_backed_up_and_restored(back_up, restore, volume, content, volumes_on_node):
    """BAK-63 for customers"""
    content.write(volume, "before")
    backup = back_up(volume, name="first")
    assert (backup["name"], backup["status"], backup["consistency"], backup["size"] > 0) == (
        "first",
        "available",
        "stopped",
        True,
    )
    content.write(volume, "after")
    before = volume.disk_name
    task = restore(volume, backup)
    assert (task.status, task.source_backup_id) == ("completed", backup["id"])
    assert (content.read(volume), volume.disk_name != before) == ("before", True)
    assert list(volumes_on_node()) == [volume.disk_name], "the earlier disk is gone"
    content.write(volume, "later")
    second = back_up(volume)
    assert second["name"].startswith("data 20")
    restore(volume, backup)
    restore(volume, second)
    assert content.read(volume) == "later"


def test_attached_volume_is_backed_up_in_increments(
    api_as, back_up, attached_volume, content, machine, call_storage_api, run_tasks
):
    """The machine's own backups and those of the volume continue from their own checkpoints."""
    content.write(attached_volume, "1")
    first = back_up(attached_volume)
    assert (first["backup_type"], find_row(first).chain_reason) == ("full", "first_backup")
    for backup_type in ("full", "incremental"):
        api_as("owner", "POST", f"/api/instance/{machine.id}/backups", json={"backup_type": "incremental"})
        run_tasks()
        assert (
            api_as("owner", "GET", f"/api/instance/{machine.id}/backups").json["data"][0]["backup_type"] == backup_type
        )
        content.write(attached_volume, backup_type)
        increment = back_up(attached_volume)
        assert (increment["backup_type"], increment["consistency"]) == ("incremental", "filesystem")
    assert find_row(increment).parent_backup_id
    call_storage_api("POST", f"volume/{attached_volume.id}/detach")
    run_tasks()
    assert find_row(back_up(attached_volume)).chain_reason == "stopped"
    call_storage_api("POST", f"volume/{attached_volume.id}/attach", instance_id=machine.id)
    run_tasks()
    assert find_row(back_up(attached_volume)).chain_reason == "no_checkpoint"
    assert back_up(attached_volume)["backup_type"] == "incremental"


def test_backup_reads_the_volume_where_it_is_then(
    back_up, attached_volume, content, call_storage_api, run_tasks, machine
):
    """Later requests have changed the row already when the backup begins."""
    path = f"volume/{attached_volume.id}"
    call_storage_api("POST", f"{path}/backup")
    call_storage_api("POST", f"{path}/detach")
    run_tasks()
    assert (attached_volume.status, attached_volume.backups[0].consistency) == ("available", "filesystem")
    call_storage_api("POST", f"{path}/backup")
    call_storage_api("POST", f"{path}/attach", instance_id=machine.id)
    run_tasks()
    rows = call_storage_api("GET", path).json["volume"]["backups"]
    assert [(row["status"], row["consistency"]) for row in rows] == [
        ("available", "filesystem"),
        ("available", "stopped"),
    ]


def test_backup_of_stopped_machine_reads_its_volume_completely(
    api_as, back_up, attached_volume, content, machine, run_tasks, node
):
    back_up(attached_volume)
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    assert find_row(back_up(attached_volume)).chain_reason == "stopped"
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/start")
    run_tasks()
    assert back_up(attached_volume)["backup_type"] == "incremental"


def test_new_volume_from_backup_of_deleted_volume(
    back_up, restore, volume, content, call_storage_api, run_tasks, volume_body, plans, volumes_on_node
):
    content.write(volume, "kept")
    backup = back_up(volume)
    call_storage_api("DELETE", f"volume/{volume.id}")
    run_tasks()
    assert session.get(Volume, volume.id) is None
    [row] = call_storage_api("GET", "volume-backups").json["data"]
    assert (row["id"], row["volume_name"], row["volume_deleted"]) == (backup["id"], "data", True)
    path = f"volume/{volume.id}/backup/{backup['id']}"
    refused = call_storage_api("POST", f"{path}/restore", mode="in_place")
    assert (refused.status_code, refused.json["reason"]) == (422, "target_disk_not_found")
    for field in ("volume_plan_id", "hypervisor_group_id"):
        body = {name: value for name, value in volume_body.items() if name != field}
        refused = call_storage_api("POST", f"{path}/restore", mode="new_volume", **body)
        assert (refused.status_code, list(refused.json["errors"])) == (422, [field])
    assert call_storage_api("GET", "volumes").json["data"] == []
    task = restore(volume, backup, mode="new_volume", name="again", **volume_body)
    new = session.get(Volume, task.resource_id)
    assert (new.name, new.status, content.read(new)) == ("again", "available", "kept")
    assert call_storage_api("DELETE", path).status_code == 200
    assert call_storage_api("GET", "volume-backups").json["data"] == []


def test_restore_needs_a_detached_volume_of_its_size(
    api_as, back_up, attached_volume, call_storage_api, run_tasks, plans, volume_body, cast
):
    """BAK-53 for volumes"""
    backup = back_up(attached_volume)
    path = f"volume/{attached_volume.id}/backup/{backup['id']}/restore"

    def refuse(**body):
        answer = call_storage_api("POST", path, **{"mode": "in_place"} | body)
        return answer.status_code, answer.json.get("reason"), list(answer.json.get("errors", ()))

    assert refuse() == (422, None, ["mode"])
    call_storage_api("POST", f"volume/{attached_volume.id}/detach")
    run_tasks()
    row = find_row(backup)
    row.disks = [row.disks[0] | {"size": 11 * 1024**3}]
    session.commit()
    assert refuse() == (422, "target_disk_too_small", ["mode"])
    assert refuse(mode="new_volume", **volume_body) == (422, None, ["volume_plan_id"])
    row.disks = [row.disks[0] | {"size": 10 * 1024**3}]
    row.status = "failed"
    session.commit()
    assert refuse() == (422, "backup_not_complete", [])
    row.status = "complete"
    settings.update({"backup_tasks_per_hypervisor": 1})
    session.add(
        Task(kind="volume_backup", resource_type="x", resource_id="x", hypervisor_id=cast.node.id, status="running")
    )
    session.commit()
    assert refuse() == (409, "hypervisor_backup_busy", [])
    assert refuse(mode="new_volume", **volume_body) == (409, "hypervisor_backup_busy", [])
    assert [row["id"] for row in call_storage_api("GET", "volumes").json["data"]] == [attached_volume.id]


def test_backup_of_attached_volume_is_in_the_queue_of_its_instance(
    api_as, attached_volume, machine, call_storage_api, run_tasks
):
    call_storage_api("POST", f"volume/{attached_volume.id}/backup")
    [row] = api_as("owner", "GET", f"/api/instance/{machine.id}/backup-queue").json["data"]
    [job] = api_as("admin", "GET", "/api/v1/instance/backup-queue/jobs").json["data"]
    assert (row["id"], row["kind"]) == (job["id"], "volume_backup")
    assert api_as("admin", "DELETE", f"/api/v1/instance/backup-queue/job/{job['id']}").status_code == 200
    run_tasks()
    [backup] = call_storage_api("GET", f"volume/{attached_volume.id}").json["volume"]["backups"]
    assert backup["status"] == "failed"
    assert api_as("admin", "GET", f"/api/v1/instance/backup-queue/job/{job['id']}/logs").json["data"]["logs"]


def test_backup_is_refused(call_storage_api, volume, destination, api_as):
    path = f"volume/{volume.id}/backup"
    assert call_storage_api("POST", path).status_code == 200
    again = call_storage_api("POST", path)
    assert (again.status_code, again.json["reason"]) == (409, "task_running")
    [row] = session.query(InstanceBackup).all()
    creating = call_storage_api("DELETE", f"{path}/{row.id}")
    assert (creating.status_code, creating.json["reason"]) == (409, "task_running")
    row.status = "failed"
    destination.status = "unavailable"
    session.commit()
    assert call_storage_api("POST", path).json["reason"] == "backup_storage_unavailable"
    destination.enabled = False
    session.commit()
    assert call_storage_api("POST", path).json["reason"] == "no_backup_destination"
    volume.status = "failed"
    session.commit()
    assert call_storage_api("POST", path).json["reason"] == "volume_not_available"


def test_operator_chooses_the_destination(api_as, volume, run_tasks, tmp_path, destination, call_storage_api):
    """BAK-63"""
    other = backup_destinations.create(name="second", storage_type="local", config={"path": str(tmp_path / "second")})
    session.commit()
    run_tasks()
    path = f"/api/v1/volume/{volume.id}/backup"
    answer = api_as("admin", "POST", path, json={"destination_id": other.id, "name": "by hand"})
    assert (answer.status_code, answer.json["data"]["queue"]["operation"]) == (200, "volume_backup")
    run_tasks()
    [row] = api_as("admin", "GET", "/api/v1/volume-backups").json["data"]
    assert (row["name"], row["status"], row["destination_name"]) == ("by hand", "available", "second")
    assert len(list((tmp_path / "second").rglob("points/*"))) == 1
    restored = api_as("admin", "POST", f"{path}/{row['id']}/restore", json={"mode": "in_place"})
    assert restored.json["data"]["queue"]["operation"] == "volume_backup_restore"
    run_tasks()
    deleted = api_as("admin", "DELETE", f"{path}/{row['id']}")
    assert deleted.json["data"]["queue"]["operation"] == "backup_delete"
    assert api_as("admin", "GET", "/api/v1/volume-backups").json["data"] == []
    assert list((tmp_path / "second").rglob("points/*")) == []
    other.enabled = False
    session.commit()
    for wrong in (other.id, UNKNOWN_ID):
        refused = api_as("admin", "POST", path, json={"destination_id": wrong})
        assert (refused.status_code, list(refused.json["errors"])) == (422, ["destination_id"])


def test_backups_of_volumes_are_not_those_of_instances(api_as, back_up, attached_volume, machine, call_storage_api):
    """Other permissions protect them: a token for instances neither sees nor deletes them."""
    backup = back_up(attached_volume)
    for path in ("/api/backups", f"/api/instance/{machine.id}/backups"):
        assert api_as("owner", "GET", path).json["data"] == []
    assert api_as("admin", "GET", "/api/v1/instance-backups").json["data"] == []
    for caller, path in (
        ("owner", f"/api/backup/{backup['id']}"),
        ("owner", f"/api/instance/{machine.id}/backup/{backup['id']}"),
    ):
        assert api_as(caller, "DELETE", path).status_code == 404
    assert find_row(backup).delete_claimed_at is None
    other = call_storage_api("DELETE", f"volume/{UNKNOWN_ID}/backup/{backup['id']}")
    assert (other.status_code, other.json["reason"]) == (404, "backup_not_found")


def test_access_is_checked(back_up, volume, call_storage_api):
    backup = back_up(volume)
    path = f"volume/{volume.id}/backup"
    for caller, status in (("outsider", 404), ("viewer", 403)):
        assert call_storage_api("POST", path, caller).status_code == status
        assert call_storage_api("DELETE", f"{path}/{backup['id']}", caller).status_code == status
        restore = call_storage_api("POST", f"{path}/{backup['id']}/restore", caller, mode="in_place")
        assert restore.status_code == status
    assert call_storage_api("GET", "volume-backups", "outsider").json["data"] == []
    assert len(call_storage_api("GET", "volume-backups", "viewer").json["data"]) == 1


def test_restricted_member_reaches_only_backups_of_own_volumes(
    back_up, volume, call_storage_api, add_member, volume_body, run_tasks, restore
):
    backup = back_up(volume)
    for caller, reach in (("chooser", "chosen"), ("sorter", "projects")):
        add_member(caller, ["volumes.view", "volumes.manage"], reach)
        assert call_storage_api("GET", "volume-backups", caller).json["data"] == []
        path = f"volume/{volume.id}/backup"
        assert call_storage_api("POST", path, caller).status_code == 404
        assert call_storage_api("DELETE", f"{path}/{backup['id']}", caller).status_code == 404
        body = {"mode": "new_volume", **volume_body}
        assert call_storage_api("POST", f"{path}/{backup['id']}/restore", caller, **body).status_code == 404
        own = call_storage_api("POST", "volumes", caller, name="own", **volume_body).json["volume"]["id"]
        run_tasks()
        assert call_storage_api("POST", f"volume/{own}/backup", caller).status_code == 200
        run_tasks()
        [row] = call_storage_api("GET", "volume-backups", caller).json["data"]
        assert row["volume_id"] == own
        copied = call_storage_api("POST", f"volume/{own}/backup/{row['id']}/restore", caller, **body)
        assert copied.status_code == 200
        assert len(call_storage_api("GET", "volumes", caller).json["data"]) == 2, "the member may use what it created"
        run_tasks()


def test_lost_backup_is_hidden_and_space_of_deleted_one_is_freed(
    back_up, volume, call_storage_api, folder, content, run_tasks, monkeypatch
):
    """Comparison and verification find backups of volumes as well."""
    content.write(volume, "x")
    backup = back_up(volume)
    row = find_row(backup)
    row.repository.collected_at = None
    session.commit()
    backup_repositories.collect_due()
    run_tasks()
    assert find_row(backup).missing_candidate_at is None
    [point] = folder.rglob("points/*")
    point.unlink()
    row.repository.collected_at = None
    session.commit()
    backup_repositories.collect_due()
    run_tasks()
    assert find_row(backup).missing_candidate_at is not None
    find_row(backup).missing_confirmed_at = find_row(backup).missing_candidate_at
    session.commit()
    assert call_storage_api("GET", f"volume/{volume.id}").json["volume"]["backups"] == []


@pytest.mark.parametrize("step", ["begin_backup", "open_backup"])
def test_failed_backup_does_not_stop_the_next_operation(
    call_storage_api, attached_volume, node, run_tasks, step, machine
):
    node.fault(step, "refuse", 1)
    call_storage_api("POST", f"volume/{attached_volume.id}/backup")
    call_storage_api("POST", f"volume/{attached_volume.id}/detach")
    run_tasks()
    volume = call_storage_api("GET", f"volume/{attached_volume.id}").json["volume"]
    assert (volume["status"], volume["error"]) == ("available", None)
    [row] = volume["backups"]
    assert (row["status"], bool(row["error"])) == ("failed", True)
    assert call_storage_api("DELETE", f"volume/{attached_volume.id}/backup/{row['id']}").status_code == 200


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["begin_backup", "end_backup"])
def test_backup_is_completed_after_worker_death(call_storage_api, attached_volume, kill_worker_at, step, after):
    call_storage_api("POST", f"volume/{attached_volume.id}/backup")
    task = session.get(Task, attached_volume.task_id)
    kill_worker_at(task, step, after=after)
    assert requeue_to_new_worker(task).status == "completed"
    [row] = call_storage_api("GET", f"volume/{attached_volume.id}").json["volume"]["backups"]
    assert row["status"] == "available"


@pytest.mark.parametrize("after", [False, True])
def test_new_volume_is_completed_after_worker_death(
    back_up, restore, volume, volume_body, content, kill_worker_at, volumes_on_node, after
):
    content.write(volume, "before")
    task = restore(volume, back_up(volume), run=False, mode="new_volume", **volume_body)
    kill_worker_at(task, "write_disk", after=after)
    assert requeue_to_new_worker(task).status == "completed"
    new = session.get(Volume, task.resource_id)
    assert (content.read(new), new.status) == ("before", "available")
    assert set(volumes_on_node()) == {volume.disk_name, new.disk_name}


def test_failed_new_volume_leaves_no_disk(back_up, restore, volume, volume_body, node, volumes_on_node):
    backup = back_up(volume)
    node.fault("write_disk", "full", 1)
    task = restore(volume, backup, mode="new_volume", **volume_body)
    new = session.get(Volume, task.resource_id)
    assert (task.status, new.status, bool(new.error)) == ("failed", "failed", True)
    assert list(volumes_on_node()) == [volume.disk_name]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["write_disk", "delete_disk"])
def test_restore_is_completed_after_worker_death(
    back_up, restore, volume, content, kill_worker_at, volumes_on_node, step, after
):
    content.write(volume, "before")
    backup = back_up(volume)
    content.write(volume, "after")
    task = restore(volume, backup, run=False)
    kill_worker_at(task, step, after=after)
    assert requeue_to_new_worker(task).status == "completed"
    assert (content.read(volume), list(volumes_on_node())) == ("before", [volume.disk_name])


def test_failed_restore_keeps_the_content(back_up, restore, volume, content, node, monkeypatch, volumes_on_node):
    content.write(volume, "before")
    backup = back_up(volume)
    content.write(volume, "after")
    monkeypatch.setattr(Repository, "read_manifest", fail_always)
    task = restore(volume, backup)
    assert (task.status, bool(volume.error)) == ("failed", True)
    monkeypatch.undo()
    node.fault("write_disk", "full", 1)
    assert restore(volume, backup).status == "failed"
    assert (content.read(volume), list(volumes_on_node())) == ("after", [volume.disk_name])


def fail_always(*_):
    raise TargetFailed("No answer.")


def test_unconfirmed_deletion_keeps_the_claim(back_up, volume, call_storage_api, monkeypatch):
    backup = back_up(volume)
    monkeypatch.setattr(LocalTarget, "delete", fail_always)
    monkeypatch.setattr(LocalTarget, "stat", fail_always)
    path = f"volume/{volume.id}/backup/{backup['id']}"
    answer = call_storage_api("DELETE", path)
    assert (answer.status_code, answer.json["reason"]) == (503, "delete_dispatch_unconfirmed")
    assert call_storage_api("DELETE", path).json["reason"] == "backup_being_deleted"
    [row] = call_storage_api("GET", f"volume/{volume.id}").json["volume"]["backups"]
    assert row["status"] == "deleting"


def test_page_of_volume(browser_as, volume, run_tasks, content, volume_body):
    owner, path = browser_as("owner"), f"/volumes/{volume.id}"
    content.write(volume, "before")
    assert owner.post(f"{path}/backup").status_code == 303
    run_tasks()
    [backup] = session.query(InstanceBackup).all()
    page = owner.get(path).text
    assert backup.name in page
    assert f"/volumes/new?backup={backup.id}" in page
    content.write(volume, "after")
    assert owner.post(f"{path}/backup/{backup.id}/restore").status_code == 303
    run_tasks()
    assert content.read(volume) == "before"
    assert backup.name in owner.get("/volumes/backups").text
    assert "No backup matches" in owner.get("/volumes/backups?search=nothing").text
    assert browser_as("outsider").get(f"/volumes/new?backup={backup.id}").status_code == 404
    assert backup.name in owner.get(f"/volumes/new?backup={backup.id}").text
    created = owner.post(f"/volumes/new?backup={backup.id}", data={"name": "copy", **volume_body})
    assert created.status_code == 303
    run_tasks()
    copy = session.query(Volume).filter_by(name="copy").one()
    assert content.read(copy) == "before"
    assert "needs volumes.manage" in browser_as("viewer").get(path).text
    assert browser_as("viewer").post(f"{path}/backup").status_code == 403
    assert owner.post(f"{path}/backup/{backup.id}/delete").status_code == 303
    assert "No backup yet" in owner.get("/volumes/backups").text


def test_pages_of_operators(browser_as, volume, run_tasks, destination, content):
    admin, path = browser_as("admin"), f"/admin/volumes/{volume.id}"
    assert path in admin.get("/admin/volumes").text
    content.write(volume, "before")
    assert admin.post(f"{path}/backup", data={"name": "", "destination_id": destination.id}).status_code == 303
    run_tasks()
    [backup] = session.query(InstanceBackup).all()
    assert backup.name in admin.get(path).text
    assert admin.post(f"{path}/backup", data={"destination_id": UNKNOWN_ID}).status_code == 422
    assert path in admin.get("/admin/backups").text
    page = admin.get(f"/admin/backups/{backup.id}").text
    assert path in page
    assert "Test restore" not in page, "only instances are tested"
    content.write(volume, "after")
    assert admin.post(f"{path}/backup/{backup.id}/restore").status_code == 303
    run_tasks()
    assert content.read(volume) == "before"
    assert admin.post(f"{path}/backup/{backup.id}/delete").status_code == 303
    assert session.query(InstanceBackup).count() == 0


def test_lists_need_a_constant_number_of_queries(back_up, volume, call_storage_api, browser_as, queries):
    owner = browser_as("owner")

    def count():
        back_up(volume)
        queries.clear()
        call_storage_api("GET", "volumes")
        call_storage_api("GET", "volume-backups")
        owner.get(f"/volumes/{volume.id}")
        return len(queries)

    count()
    assert count() == count()
