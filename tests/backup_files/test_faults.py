"""Faults at every call of the node while files are opened, downloaded and closed."""

import pytest

from panel.core.db import session
from panel.models import BackupFileRequest, BackupFileSession, Task
from panel.workflows import backup_files, waiting
from tests.support.worker_faults import requeue_to_new_worker
from worker.nodes.base import AgentUnavailable, Refused, Unreachable
from worker.nodes.simulated import SimulatedNode
from worker.tasks import backup_files as tasks

OPEN_CALLS = ("write_disk", "create_disk", "define", "start", "agent_run")
CLOSE_CALLS = ("delete", "disks", "delete_disk")


def find_task(kind):
    return session.query(Task).filter_by(kind=f"backup_files_{kind}").order_by(Task.id.desc()).first()


def count_helper_disks(node):
    return node.state.rows("SELECT count(*) FROM disks WHERE name LIKE 'files-%'")[0][0]


def count_helper_machines(node):
    return sum(machine.name.startswith("files-") for machine in node.machines())


def read_state(api_as, files_path):
    return api_as("owner", "GET", f"{files_path}/session").json["session"]["state"]


@pytest.mark.parametrize("operation", OPEN_CALLS)
def test_failed_opening_leaves_nothing(api_as, files_path, node, run_tasks, fault_at, operation):
    def refuse():
        raise Refused("The node refuses.")

    with fault_at(operation, refuse):
        api_as("owner", "POST", f"{files_path}/session")
        run_tasks()
        assert find_task("open").status == "failed"
    assert read_state(api_as, files_path) == "failed"
    assert (count_helper_disks(node), count_helper_machines(node)) == (0, 0)
    api_as("owner", "POST", f"{files_path}/session")
    run_tasks()
    assert read_state(api_as, files_path) == "ready"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", OPEN_CALLS)
def test_worker_killed_while_opening(api_as, files_path, node, kill_worker_at, operation, after):
    """The next attempt opens the files."""
    api_as("owner", "POST", f"{files_path}/session")
    task = find_task("open")
    kill_worker_at(task, operation, after=after)
    assert requeue_to_new_worker(task).status == "completed"
    assert read_state(api_as, files_path) == "ready"
    assert (count_helper_disks(node), count_helper_machines(node)) == (2, 1)


@pytest.mark.parametrize("operation", CLOSE_CALLS)
def test_closing_is_repeated(api_as, opened, node, run_tasks, fault_at, operation):
    def fail():
        raise Unreachable("The node does not answer.")

    with fault_at(operation, fail):
        api_as("owner", "DELETE", f"{opened}/session")
        run_tasks()
        assert find_task("close").status == "failed"
    tasks.close_due()
    run_tasks()
    assert find_task("close").status == "completed"
    assert (count_helper_disks(node), count_helper_machines(node)) == (0, 0)
    assert session.query(BackupFileSession).count() == 0


def test_closing_while_opening(api_as, files_path, node, run_tasks):
    """The task that opens is cancelled, and what it made is removed."""
    api_as("owner", "POST", f"{files_path}/session")
    api_as("owner", "DELETE", f"{files_path}/session")
    answer = api_as("owner", "POST", f"{files_path}/session")
    assert (answer.status_code, answer.json["reason"]) == (409, "task_running")
    run_tasks()
    assert (find_task("open").status, find_task("close").status) == ("cancelled", "completed")
    assert (count_helper_disks(node), session.query(BackupFileSession).count()) == (0, 0)


def test_machine_that_does_not_start(api_as, files_path, node, run_tasks, monkeypatch):
    def fail(self, *arguments):
        raise AgentUnavailable("The guest agent does not answer.")

    monkeypatch.setattr(SimulatedNode, "agent_run", fail)
    monkeypatch.setattr(tasks, "BOOT_TIMEOUT_SECONDS", 0.05)
    api_as("owner", "POST", f"{files_path}/session")
    run_tasks()
    assert find_task("open").error == "The machine that reads the backup did not start."
    assert (count_helper_disks(node), count_helper_machines(node)) == (0, 0)


def test_lost_channel_ends_download(api_as, opened, run_tasks, monkeypatch):
    """A download fails, and the next request prepares it."""
    place = f"{opened}/download?filepath=/disk-1-partition-1/etc/hosts"
    with monkeypatch.context() as patches:
        patches.setattr(SimulatedNode, "serve_channel", staticmethod(lambda guest_end: None))
        answer = api_as("owner", "GET", place)
    assert (answer.status_code, answer.json["reason"]) == (503, "files_not_ready")
    assert "does not answer" in answer.json["message"]
    assert api_as("owner", "GET", place).status_code == 200


def test_list_is_requested_again_when_node_did_not_answer(api_as, opened, fault_at):
    def fail():
        raise Unreachable("The node does not answer.")

    place = f"{opened}?filepath=/disk-1-partition-1"
    with fault_at("agent_run", fail):
        answer = api_as("owner", "GET", place)
        assert (answer.status_code, answer.json["reason"]) == (503, "files_not_ready")
    assert len(api_as("owner", "GET", place).json["files"]) == 1


def test_download_is_not_left_waiting_when_cancelled(api_as, opened, run_tasks, no_waiting):
    answer = api_as("owner", "GET", f"{opened}/download?filepath=/disk-1-partition-1/etc")
    assert (answer.status_code, answer.json["reason"]) == (503, "download_not_ready")
    assert api_as("owner", "POST", f"/api/task/{find_task('download').id}/cancel").status_code == 200
    run_tasks()
    [request] = session.query(BackupFileRequest).all()
    session.refresh(request)
    assert request.status == "failed"


@pytest.fixture
def no_waiting(monkeypatch):
    """Run no worker while a request waits, and let it time out at once."""
    monkeypatch.setattr(waiting.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(backup_files, "RESULT_TIMEOUT_SECONDS", -1)
