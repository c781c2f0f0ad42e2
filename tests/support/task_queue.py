"""Calls given to jobs.enqueue_call, which wait in a list instead of in Redis until a test runs them."""

from importlib import import_module

from panel.core.db import generate_id, session
from tests.support import audit_assertions
from worker.engine import batch, runner

queued_calls = []
"""Calls given to jobs.enqueue_call, which wait here instead of in Redis: (dotted function, arguments)."""

IMMEDIATE_CALLS = {
    "worker.sync.reachability.poll",
    "worker.tasks.docker_deployments.check_support",
    "worker.sync.guest_agents.poll_report",
    "worker.tasks.backup_destinations.check_on_request",
}
"""Calls whose result a request waits for. They run at once, as on an idle worker."""


def queue_or_run(function, *args):
    if function in IMMEDIATE_CALLS:
        before = list(getattr(audit_assertions.written_tables, "tables", ()))
        run_call(function, *args)
        audit_assertions.written_tables.tables = before  # these writes are not the request's
    else:
        queued_calls.append((function, args))


def run_call(function, *args):
    session.commit()  # a worker process sees only committed rows
    module, name = function.rsplit(".", 1)
    getattr(import_module(module), name)(*args)


def run_queued_calls():
    """Run all queued calls, and those that they queue."""
    while queued_calls:
        function, args = queued_calls.pop(0)
        if function == "worker.engine.runner.run":
            runner.run(*args, "test-worker") if len(args) == 1 else batch.run(args, f"test-worker {generate_id()}")
        else:
            run_call(function, *args)


def list_queued_functions():
    """Return the functions of queued calls."""
    return [function for function, _ in queued_calls]
