"""Many sandboxes at once."""

from sqlalchemy import func, select

from panel.core.db import session
from panel.models import MeteringRecord, Microvm, MicrovmGuestSample, MicrovmLogEntry, Task
from panel.models.tasks import OPEN_STATUSES

SANDBOXES = 100


def count(model, *conditions):
    return session.scalar(select(func.count()).select_from(model).where(*conditions))


def test_hundred_parallel_sandboxes_leave_nothing(call, create_sandbox, image, node, run_tasks):
    image.price = 1
    ids = [create_sandbox(is_running=False)["sandboxID"] for _number in range(SANDBOXES)]
    run_tasks()
    assert count(Microvm, Microvm.state == "running") == SANDBOXES
    assert len(node.machines()) == SANDBOXES
    assert {call("DELETE", f"/sandboxes/{sandbox_id}").status_code for sandbox_id in ids} == {204}
    run_tasks()
    assert count(Microvm, Microvm.ended_at.is_(None)) == count(Task, Task.status.in_(OPEN_STATUSES)) == 0
    assert count(MicrovmLogEntry) == count(MicrovmGuestSample) == 0
    assert count(MeteringRecord, MeteringRecord.ended_at.is_(None)) == 0
    assert node.machines() == []
    assert [disk.name for disk in node.disks("default") if disk.name.startswith("m-")] == []
    assert call("GET", "/v2/sandboxes").json == []
