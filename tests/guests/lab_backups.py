"""Backups of the lab's instances."""

from tests.support.waiting import wait_until


def add_destination(lab, folder, name="local"):
    """Add a directory in which all instances are backed up."""
    body = {"name": name, "storage_type": "local", "config": {"path": str(folder)}}
    lab.call_admin("POST", "/hypervisor/backup-storages", body)


def back_up(lab, instance, **body):
    """Back the instance up and return the row of the backup."""
    path = f"/api/instance/{instance['id']}/backups"
    lab.call("POST", path, {"backup_type": "incremental", **body})
    wait_until(lambda: lab.call("GET", path)["data"][0]["status"] != "creating", "the backup")
    row = lab.call("GET", path)["data"][0]
    assert row["status"] == "complete", row["error"]
    return row


def restore(lab, instance, backup):
    """Restore the backup in place."""
    path = f"/api/instance/{instance['id']}/backup/{backup['id']}/restore"
    return lab.wait_for_task(lab.call("POST", path, {})["task_id"])
