"""A machine that runs, its guest, and the snapshots' routes."""

import pytest

from tests.live_snapshots.conftest import guest, machine, second_disk  # noqa: F401  (fixtures)
from tests.worker.conftest import at, die  # noqa: F401  (fixtures)


@pytest.fixture
def call(as_, machine):  # noqa: F811
    """Calls the routes: `call("POST", "/rollback", snapname="a")`."""

    def call(method="GET", action="", who="owner", **body):
        path = f"/api/instance/{machine.id}/snapshot{'s' if method == 'GET' else action}"
        return as_(who, method, path, **({"json": body} if body else {}))

    return call


@pytest.fixture
def take(call, work):
    """Takes a snapshot, and shows it."""

    def take(name, **more):
        assert call("POST", snapname=name, **more).status_code == 200
        work()
        return next(each for each in call().json["snapshots"] if each["name"] == name)

    return take
