"""A destination on a remote backup server, for the tests of this folder."""

import pytest

from panel.core.db import session
from panel.models import BackupDestination, BackupRepository, Task
from panel.services import backup_destinations, backup_repositories


@pytest.fixture
def destination(rolled_back_app, rbs_server, run_tasks):
    backup_destinations.create(name="pbs-1", storage_type="rbs", config=rbs_server.config | {"namespace": "panel"})
    session.commit()
    run_tasks()
    return session.query(BackupDestination).one()


@pytest.fixture
def run_comparison(run_tasks):
    """Return a function that compares the backups with the server. Returns the status of the task."""

    def run_comparison():
        task = backup_repositories.enqueue_collection(session.query(BackupRepository).one())
        session.commit()
        run_tasks()
        return session.get(Task, task.id, populate_existing=True).status

    return run_comparison


def restore(api_as, path, backup, run_tasks):
    """Restore the backup in place; return the task."""
    answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore")
    assert answer.status_code == 200, answer.text
    run_tasks()
    return session.get(Task, answer.json["task_id"], populate_existing=True)
