"""A running machine, and a destination for its backups."""

import pytest

from tests.support.backups import (  # noqa: F401  (fixtures)
    add_row,
    back_up,
    destination,
    find_backup,
    folder,
    inline_workers,
    no_workers,
    path,
)
from tests.support.running_machine import guest, machine, second_disk  # noqa: F401  (fixtures)
from tests.support.worker_faults import fault_at, kill_worker_at  # noqa: F401  (fixtures)


@pytest.fixture(autouse=True)
def run_tasks_while_waiting(inline_workers):
    """Run queued tasks while a request waits for a result."""
