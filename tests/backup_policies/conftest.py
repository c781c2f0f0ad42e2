"""Policies, and a running machine with a destination for its backups."""

import pytest

from tests.support.backups import back_up, destination, find_backup, folder, path  # noqa: F401  (fixtures)
from tests.support.running_machine import guest, machine, second_disk  # noqa: F401  (fixtures)


@pytest.fixture
def create_policy(api_as):
    """Return a function that creates a policy and returns its row."""

    def create(caller="owner", **body):
        prefix = "/api/v1" if caller == "admin" else "/api"
        answer = api_as(caller, "POST", f"{prefix}/backup-policies", json={"name": "p", "retention_count": 7} | body)
        assert answer.status_code == 200, answer.text
        return answer.json["data"] if caller == "admin" else answer.json["policy"]

    return create
