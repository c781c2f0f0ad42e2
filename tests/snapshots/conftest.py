"""A running machine, its guest, and helpers for the snapshot routes."""

import pytest

from tests.support.running_machine import guest, machine, second_disk  # noqa: F401  (fixtures)
from tests.support.worker_faults import fault_at, kill_worker_at  # noqa: F401  (fixtures)


@pytest.fixture
def call_snapshot_api(api_as, machine):
    """Return a function that calls the routes: `call_snapshot_api("POST", "/rollback", snapname="a")`."""

    def call(method="GET", action="", caller="owner", **body):
        path = f"/api/instance/{machine.id}/snapshot{'s' if method == 'GET' else action}"
        return api_as(caller, method, path, **({"json": body} if body else {}))

    return call


@pytest.fixture
def take_snapshot(call_snapshot_api, run_tasks):
    """Return a function that takes a snapshot and returns its item of the list."""

    def take(name, **fields):
        assert call_snapshot_api("POST", snapname=name, **fields).status_code == 200
        run_tasks()
        return next(snapshot for snapshot in call_snapshot_api().json["snapshots"] if snapshot["name"] == name)

    return take
