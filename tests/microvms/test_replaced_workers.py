"""Tasks of workers that `panel up` has seen to end: their next process requeues them at once."""

import pytest

from panel.core.db import session
from panel.models import Microvm, Task
from worker.engine import claiming, reaper

DEAD = "worker-dead"


@pytest.fixture
def claim_create(call_api, microvm_body):
    """Return a function that creates a micro VM whose task a worker has claimed. It returns the task."""

    def claim(claim_name):
        vm = call_api("POST", "vms", **microvm_body).json["vm"]
        return claiming.claim(session.get(Microvm, vm["id"]).task_id, claim_name)

    return claim


def test_create_of_an_ended_worker_goes_on(rolled_back_app, claim_create, run_tasks, names_on_node):
    task, other = claim_create(f"{DEAD}-7"), claim_create(f"{DEAD}er-1")
    reaper.requeue_replaced(rolled_back_app, ["worker-unknown", DEAD])
    run_tasks()
    assert (session.get(Task, task.id).status, task.attempt) == ("completed", 2)
    assert session.get(Microvm, task.resource_id).state == "running"
    assert (session.get(Task, other.id).status, other.worker) == ("running", f"{DEAD}er-1")


def test_task_with_long_calls_waits_for_the_lease(rolled_back_app, microvm, request_action, manual_reaper):
    """The node may still carry out the call of the ended worker."""
    task = claiming.claim(request_action(microvm, "pause").id, f"{DEAD}-1")
    reaper.requeue_replaced(rolled_back_app, [DEAD])
    assert session.get(Task, task.id, populate_existing=True).status == "running"
    manual_reaper.advance(reaper.TASK_LEASE_SECONDS + 5)
    assert session.get(Task, task.id).status == "queued"


def test_create_that_has_lost_many_workers_fails(rolled_back_app, claim_create):
    task = claim_create(f"{DEAD}-1")
    task.attempt = reaper.MAX_TASK_ATTEMPTS
    session.commit()
    reaper.requeue_replaced(rolled_back_app, [DEAD])
    assert session.get(Task, task.id, populate_existing=True).status == "failed"
    assert session.get(Microvm, task.resource_id).state == "failed"
