import pytest

from tests.docker_apps.fake_guest import Host
from worker.guest import background_job


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Its agent is asked often."""
    monkeypatch.setattr(background_job, "FIRST", 0.02)
    monkeypatch.setattr(background_job, "LAST", 0.1)
    return Host(tmp_path)
