"""Faults of a backup server, of the node and of the worker at each step of backup, restore, deletion and comparison.

A failed backup leaves no snapshot, a failed restore leaves the guest as it was, the row of a backup stays until the
server has deleted it, and nothing is missing because the server does not answer. After the fault everything works.
"""

from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from panel.core.db import session
from panel.models import BackupRepository, InstanceBackup, Task
from panel.services import backup_repositories
from tests.instance_backups.rbs_destination import destination, restore, run_comparison  # noqa: F401  (fixtures)
from tests.support.rbs_server import rbs_server  # noqa: F401  (fixture)
from tests.support.waiting import wait_until
from tests.support.worker_faults import WorkerKilled, requeue_to_new_worker
from worker.backups.rbs.api import Api
from worker.engine import runner
from worker.nodes.base import Power
from worker.tasks import rbs_stores
from worker.tasks.instance_backups import reconcile_deletions

TIMEOUT_SECONDS, DELAY_SECONDS = 0.3, 1.5
BACKUP_FUNCTIONS = (
    *("snapshots", "backup", "previous", "fixed_index", "fixed_chunk", "fixed_close", "blob", "finish"),
)
READER_FUNCTIONS = ("snapshots", "reader", "download", "chunk")
SERVER_FAULTS = ("gone", "slow", "fingerprint", "token")
NO_JSON, OTHER_SHAPES = b"<html>", (b"[]", b'{"data": null}', b'{"data": [{}]}', b'{"data": [7]}')


@pytest.fixture
def short_timeout(monkeypatch):
    """Let the worker wait shortly for the server."""
    monkeypatch.setattr(rbs_stores, "build_server", partial(rbs_stores.build_server, timeout=TIMEOUT_SECONDS))


@pytest.fixture
def fault(rbs_server, short_timeout):
    """Return a context manager with a fault of the server."""

    @contextmanager
    def make_fault(kind, function=None):
        earlier = rbs_server.context, rbs_server.fingerprint, dict(rbs_server.tokens)
        if kind == "gone":
            rbs_server.stop()
        elif kind == "slow":
            rbs_server.delay = DELAY_SECONDS
        elif kind == "fingerprint":
            rbs_server.replace_certificate()
        elif kind == "token":
            rbs_server.tokens.clear()
        elif kind == "full":
            rbs_server.datastore.is_full = True
        elif kind == "cut":
            rbs_server.cut_at = function
        else:
            rbs_server.changes[function] = kind
        yield
        rbs_server.context, rbs_server.fingerprint, tokens = earlier
        rbs_server.tokens.update(tokens)
        if kind in ("gone", "fingerprint"):
            rbs_server.stop()
            rbs_server.start()
        rbs_server.delay, rbs_server.datastore.is_full, rbs_server.cut_at = 0, False, None
        rbs_server.changes.clear()

    return make_fault


def lie(*contents):
    """Return functions that answer something else."""
    return [lambda _, content=content: content for content in contents]


def damage(content):
    return content[:-1] + bytes([content[-1] ^ 1])


BACKUP_FAULTS = [
    *((kind, None) for kind in (*SERVER_FAULTS, "full")),
    *(("cut", function) for function in BACKUP_FUNCTIONS),
    *((change, "snapshots") for change in lie(NO_JSON, *OTHER_SHAPES)),
    *((change, "fixed_index") for change in lie(NO_JSON, b"[]")),
]
RESTORE_FAULTS = [
    *((kind, None) for kind in SERVER_FAULTS),
    *(("cut", function) for function in READER_FUNCTIONS),
    *((change, "snapshots") for change in lie(NO_JSON, *OTHER_SHAPES)),
    *((change, function) for function in ("download", "chunk") for change in (damage, *lie(b"", b"\0" * 5000))),
]
COMPARISON_FAULTS = [
    *((kind, None) for kind in SERVER_FAULTS),
    ("cut", "snapshots"),
    *((change, "snapshots") for change in lie(NO_JSON, *OTHER_SHAPES)),
]


def test_failed_backup_leaves_no_snapshot_and_the_next_one_is_right(
    api_as, back_up, guest, path, rbs_server, fault, run_tasks
):
    guest.write("first")
    first = back_up()
    for number, (kind, function) in enumerate(BACKUP_FAULTS):
        guest.write(f"change {number}")
        with fault(kind, function):
            backup = back_up(backup_type="incremental")
        message = "The backup storage cannot be used now."
        assert (backup["status"], backup["error"]) == ("failed", message), (kind, function)
        assert len(rbs_server.datastore.list_group(("panel", "vm", first["instance_id"]))) == 1, (kind, function)
    last = back_up(backup_type="incremental")
    assert (last["status"], last["read_mode"]) == ("complete", "incremental")
    guest.write("later")
    for backup, text in ((first, "first"), (last, f"change {len(BACKUP_FAULTS) - 1}")):
        assert restore(api_as, path, backup, run_tasks).status == "completed"
        assert guest.read() == text


def test_failed_restore_leaves_the_guest_as_it_was(api_as, back_up, guest, machine, node, path, fault, run_tasks):
    guest.write("before")
    backup = back_up()
    guest.write("after")
    disks = list_disks(node)
    for kind, function in RESTORE_FAULTS:
        with fault(kind, function):
            task = restore(api_as, path, backup, run_tasks)
        assert task.status == "failed", (kind, function)
        assert "internal" not in str(task.error).lower(), (kind, function)
        assert (guest.read(), node.power(machine.id), list_disks(node)) == ("after", Power.on, disks), (kind, function)
    assert restore(api_as, path, backup, run_tasks).status == "completed"
    assert guest.read() == "before"


def list_disks(node):
    return {(row["pool"], row["name"]) for row in node.state.rows("SELECT pool, name FROM disks")}


@pytest.mark.parametrize("kind", SERVER_FAULTS)
def test_deletion_that_cannot_begin_releases_the_claim(api_as, back_up, find_backup, path, rbs_server, fault, kind):
    """Nothing was asked of the server that could have changed it."""
    backup = back_up()
    with fault(kind):
        answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (422, "delete_not_dispatched")
    assert find_backup(backup).delete_claimed_at is None
    assert len(rbs_server.datastore.snapshots) == 1
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    assert (find_backup(backup), rbs_server.datastore.snapshots) == (None, {})


@pytest.mark.parametrize(("kind", "is_deleted"), [("gone", False), ("fingerprint", False), ("slow", True)])
def test_deletion_without_outcome_stays_claimed(
    api_as, back_up, find_backup, path, rbs_server, fault, monkeypatch, kind, is_deleted
):
    """The fault is met at the deletion itself. Whether the snapshot is gone is found out when it is over."""
    backup, real, faults = back_up(), Api.delete, ExitStack()

    def delete_with_fault(api, snapshot):
        faults.enter_context(fault(kind))
        real(api, snapshot)

    with faults:
        monkeypatch.setattr(Api, "delete", delete_with_fault)
        answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
        assert (answer.status_code, answer.json["reason"]) == (503, "delete_dispatch_unconfirmed")
        reconcile_deletions()
        assert find_backup(backup).delete_claimed_at
        wait_until(lambda: len(rbs_server.datastore.snapshots) == (not is_deleted), "the server")
    reconcile_deletions()
    assert (find_backup(backup) is None) is is_deleted
    assert is_deleted or find_backup(backup).delete_claimed_at is None


def test_unanswered_deletion_stays_claimed_while_the_server_still_has_the_snapshot(
    api_as, back_up, find_backup, path, rbs_server, short_timeout, monkeypatch
):
    """BAK-32: the server may delete it later, so that it is listed now proves nothing."""
    backup, real = back_up(), Api.delete

    def delete_with_delay(api, snapshot):
        rbs_server.delay = DELAY_SECONDS
        try:
            real(api, snapshot)
        finally:
            rbs_server.delay = 0

    monkeypatch.setattr(Api, "delete", delete_with_delay)
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (503, "delete_dispatch_unconfirmed")
    assert find_backup(backup).delete_claimed_at
    wait_until(lambda: not rbs_server.datastore.snapshots, "the server")
    reconcile_deletions()
    assert find_backup(backup) is None


def test_snapshot_that_the_server_did_not_delete_keeps_its_backup(
    api_as, back_up, find_backup, path, rbs_server, monkeypatch
):
    """The server reports success, and still lists the snapshot."""
    backup = back_up()
    monkeypatch.setattr(rbs_server.datastore, "delete", lambda key: None)
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (422, "delete_not_dispatched")
    assert find_backup(backup).delete_claimed_at is None


def test_worker_killed_around_the_deletion_of_a_snapshot(
    api_as, path, back_up, no_workers, find_backup, monkeypatch, rbs_server
):
    """The next attempt deletes the snapshot, or finds that it is gone."""
    real = Api.delete

    def die_before(api, snapshot):
        raise WorkerKilled

    def die_after(api, snapshot):
        real(api, snapshot)
        raise WorkerKilled

    for die in (die_before, die_after):
        backup = back_up()
        api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
        task = session.query(Task).filter_by(kind="backup_delete", status="queued").one()
        with monkeypatch.context() as patched:
            patched.setattr(Api, "delete", die)
            with pytest.raises(WorkerKilled):
                runner.run(task.id, "first worker")
        session.rollback()
        assert requeue_to_new_worker(task).status == "completed"
        assert (find_backup(backup), rbs_server.datastore.snapshots) == (None, {})


def test_failed_comparison_marks_nothing_as_missing(back_up, run_comparison, fault):
    back_up()
    for kind, function in COMPARISON_FAULTS:
        with fault(kind, function):
            assert run_comparison() == "failed", (kind, function)
        assert session.query(InstanceBackup).one().missing_candidate_at is None, (kind, function)
    with fault("full"):
        assert run_comparison() == "completed"


def test_worker_killed_during_comparison(back_up, rbs_server, monkeypatch):
    """The next attempt records what the first one saw, and protects what it did not."""
    back_up()
    session.query(InstanceBackup).one().protected = True
    task = backup_repositories.enqueue_collection(session.query(BackupRepository).one())
    session.commit()

    def die(*_):
        raise WorkerKilled

    for method in ("fetch_snapshot_states", "set_protected"):
        with monkeypatch.context() as patched:
            patched.setattr(Api, method, die)
            with pytest.raises(WorkerKilled):
                runner.run(task.id, f"worker of {method}")
        session.rollback()
        task = session.get(Task, task.id, populate_existing=True)
        task.worker, task.status = None, "queued"
        session.commit()
    assert requeue_to_new_worker(task).status == "completed"
    [snapshot] = rbs_server.datastore.snapshots.values()
    assert snapshot.is_protected
    assert session.query(InstanceBackup).one().missing_candidate_at is None


def test_worker_killed_at_every_call_of_backup_and_restore(
    api_as, path, back_up, guest, machine, node, kill_worker_at, run_tasks, rbs_server
):
    """The next attempt completes the backup, once, and the restore."""
    guest.write("before")
    for operation in ("begin_backup", "open_backup", "end_backup", "delete_checkpoints"):
        for after in (False, True):
            api_as("owner", "POST", f"{path}/backups", json={"backup_type": "incremental"})
            kill_worker_at(find_queued("backup_create"), operation, after=after)
            assert requeue_to_new_worker(find_last("backup_create")).status == "completed", (operation, after)
    rows = api_as("owner", "GET", f"{path}/backups").json["data"]
    assert {row["status"] for row in rows} == {"complete"}
    assert len(rbs_server.datastore.snapshots) == len(rows) == 8
    disks = len(list_disks(node))
    for operation in ("write_disk", "power_off", "define", "start", "delete_disk"):
        for after in (False, True):
            guest.write("after")
            api_as("owner", "POST", f"{path}/backup/{rows[0]['id']}/restore")
            kill_worker_at(find_queued("backup_restore"), operation, after=after)
            assert requeue_to_new_worker(find_last("backup_restore")).status == "completed", (operation, after)
            assert (guest.read(), node.power(machine.id), len(list_disks(node))) == ("before", Power.on, disks)


def find_queued(kind):
    return session.query(Task).filter_by(kind=kind, status="queued").one()


def find_last(kind):
    return session.query(Task).filter_by(kind=kind).order_by(Task.id.desc()).first()


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_node_fault_leaves_points_and_guest_as_they_were(
    api_as, path, back_up, guest, machine, short_deadline_node, run_tasks, rbs_server, kind
):
    node = short_deadline_node
    guest.write("before")
    first, count = back_up(), 1
    for operation in ("begin_backup", "open_backup"):
        node.fault(operation, kind, count=2)
        status = back_up(backup_type="incremental")["status"]
        node.clear()
        count += status == "complete"
        assert len(rbs_server.datastore.snapshots) == count, operation
    guest.write("after")
    for operation in ("write_disk", "define"):
        disks = list_disks(node)
        node.fault(operation, kind, count=1)
        assert restore(api_as, path, first, run_tasks).status == "failed", operation
        node.clear()
        run_tasks()
        assert (guest.read(), node.power(machine.id), list_disks(node)) == ("after", Power.on, disks), operation
    assert restore(api_as, path, first, run_tasks).status == "completed"
    assert guest.read() == "before"
