"""Calls of the routes of live sessions, for a running machine."""

import pytest

from tests.support.running_machine import guest, machine, second_disk  # noqa: F401  (fixtures)


@pytest.fixture
def call_forge_api(api_as, machine):
    """Return a function that calls the live session's routes: `call_forge_api("POST", "enable")`."""

    def call(method="GET", action="", caller="owner", prefix="/api", **body):
        path = f"{prefix}/instance/{machine.id}/forge{'/' if action else ''}{action}"
        return api_as(caller, method, path, **({"json": body} if body else {}))

    return call
