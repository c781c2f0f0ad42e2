"""Faults at node operations, killed workers, and a reaper with manual time."""

from contextlib import contextmanager

import pytest

from panel.core.db import session
from panel.models import Task
from worker.engine import reaper, runner
from worker.nodes.simulated import SimulatedNode


def requeue_to_new_worker(previous_task):
    """Requeue the task of a dead worker and run it on another one, as the reaper does."""
    task = session.get(Task, previous_task.id, populate_existing=True)
    task.worker, task.status = None, "queued"
    session.commit()
    runner.run(previous_task.id, "another worker")
    session.expire_all()
    return session.get(Task, previous_task.id)


class WorkerKilled(BaseException):
    """Ends a worker as SIGKILL does: no handler catches it."""


@pytest.fixture
def fault_at(monkeypatch):
    """Return a context manager that calls `then` before a node operation, or after it with `after=True`:
    `with fault_at("start", then=call)`."""

    @contextmanager
    def patch_operation(operation, then, *, after=False):
        real = getattr(SimulatedNode, operation)

        def call_with_fault(self, *args, **kwargs):
            if not after:
                then()
            result = real(self, *args, **kwargs)
            if after:
                then()
            return result

        with monkeypatch.context() as patched:
            patched.setattr(SimulatedNode, operation, call_with_fault)
            yield

    return patch_operation


@pytest.fixture
def kill_worker_at(fault_at):
    """Return a function that runs a task in a worker that is killed before or after the effect of a node operation."""

    def run_and_kill(task, operation, *, after=True):
        def kill():
            raise WorkerKilled

        with fault_at(operation, kill, after=after), pytest.raises(WorkerKilled):
            runner.run(task.id, f"worker of {operation}")
        session.rollback()

    return run_and_kill


class ManualReaper(reaper.Reaper):
    """A reaper that runs every five seconds of a time that only `advance` moves."""

    time = 0.0

    def advance(self, seconds):
        """Move the time and run the reaper. No heartbeats are written meanwhile."""
        for _ in range(round(seconds / 5)):
            ManualReaper.time += 5
            self()
        session.expire_all()


@pytest.fixture
def manual_reaper(rolled_back_app, monkeypatch):
    monkeypatch.setattr(reaper, "monotonic", lambda: ManualReaper.time)
    monkeypatch.setattr(reaper, "get_queue_length", lambda: 0)
    return ManualReaper()
