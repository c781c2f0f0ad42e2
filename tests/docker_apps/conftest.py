import pytest

from tests.docker_apps.fake_guest import FakeGuest
from worker.guest import background_job


@pytest.fixture
def fake_guest(tmp_path, monkeypatch):
    """A fake guest that is polled at short intervals."""
    monkeypatch.setattr(background_job, "FIRST_POLL_SECONDS", 0.02)
    monkeypatch.setattr(background_job, "MAX_POLL_SECONDS", 0.1)
    return FakeGuest(tmp_path)
