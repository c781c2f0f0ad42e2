"""Redis loses its data before and during each step of a backup, its restore, its deletion and garbage collection."""

import pytest

from panel.core.db import session
from panel.models import BackupRepository, InstanceBackup, Task
from panel.services import backup_repositories
from tests.instance_backups import rbs_destination
from tests.support import backups
from tests.support.rbs_server import rbs_server  # noqa: F401  (fixture)
from tests.support.task_queue import queued_calls, run_queued_calls
from tests.support.worker_faults import manual_reaper  # noqa: F401  (fixture)

BACKUP_CALLS, RESTORE_CALLS = ("begin_backup", "open_backup", "end_backup"), ("write_disk", "power_off", "start")
local_destination = backups.destination
server_destination = rbs_destination.destination


@pytest.fixture(params=["local_destination", "server_destination"])
def destination(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def run_after_loss(manual_reaper):
    """Return a function that loses all notifications, and runs the open tasks once they are repeated."""

    def run_after_loss():
        queued_calls.clear()
        assert session.query(Task).filter_by(status="queued").count() == 1
        manual_reaper.advance(10)
        run_queued_calls()
        session.expire_all()
        return session.query(Task).order_by(Task.id.desc()).first().status

    return run_after_loss


def test_tasks_complete_after_redis_lost_its_data(
    api_as, path, guest, destination, no_workers, run_after_loss, fault_at
):
    guest.write("before")
    for number, call in enumerate(BACKUP_CALLS):
        api_as("owner", "POST", f"{path}/backups", json={"backup_type": "incremental"})
        with fault_at(call, queued_calls.clear):
            assert run_after_loss() == "completed", call
        assert session.query(InstanceBackup).filter_by(status="complete").count() == number + 1
    backup = session.query(InstanceBackup).first()
    for call in RESTORE_CALLS:
        guest.write("after")
        api_as("owner", "POST", f"{path}/backup/{backup.id}/restore")
        with fault_at(call, queued_calls.clear):
            assert run_after_loss() == "completed", call
        assert guest.read() == "before"
    api_as("owner", "DELETE", f"{path}/backup/{backup.id}")
    assert run_after_loss() == "completed"
    assert session.query(InstanceBackup).count() == len(BACKUP_CALLS) - 1
    backup_repositories.enqueue_collection(session.query(BackupRepository).one())
    session.commit()
    assert run_after_loss() == "completed"
