import pytest

from tests.docker_apps.host import Host
from worker.guests import detached


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Its agent is asked often."""
    monkeypatch.setattr(detached, "FIRST", 0.02)
    monkeypatch.setattr(detached, "LAST", 0.1)
    return Host(tmp_path)
