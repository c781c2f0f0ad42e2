"""A running machine with a backup, and tests that do not wait."""

import pytest

from panel.core.db import session
from panel.models import InstanceBackup
from panel.services import settings
from tests.support.backups import back_up, destination, folder, inline_workers, path  # noqa: F401  (fixtures)
from tests.support.running_machine import guest, machine  # noqa: F401  (fixtures)
from tests.support.worker_faults import fault_at, kill_worker_at  # noqa: F401  (fixtures)
from worker.tasks import backup_restore_tests as tasks


@pytest.fixture(autouse=True)
def short_waits(monkeypatch, inline_workers):
    monkeypatch.setattr(tasks, "POLL_SECONDS", 0)
    monkeypatch.setattr(tasks, "AGENT_SECONDS", 0.3)
    monkeypatch.setattr(tasks, "SCREEN_SECONDS", 0.3)


@pytest.fixture
def backup(back_up):
    row = back_up()
    return session.get(InstanceBackup, row["id"])


@pytest.fixture
def tests_enabled(rolled_back_app):
    settings.update({"backup_restore_tests_per_day": 5})
    session.commit()
