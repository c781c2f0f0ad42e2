"""Background jobs and Docker scripts with busybox as the only implementation of commands (OTH-10)."""

import pytest

from tests.docker_apps.fake_guest import FakeGuest
from worker.guest import background_job, docker
from worker.nodes.base import CommandResult

pytestmark = pytest.mark.guest

ENVIRONMENT = {"ONE": "it's $HOME", "TWO": "'\"`\\$", "THREE": " é "}
DOCKER_SCRIPT = """\
case "$1 $2" in
"compose --ansi") env >{home}/seen ;;
"ps -aq") echo one ;;
inspect*) echo "web|running|0|false|0|2020-01-01T00:00:00.1Z|" ;;
"ps -a") echo one web ;;
"logs --timestamps") echo "2026-01-01T00:00:02Z b"; echo "2026-01-01T00:00:01Z a" ;;
esac
"""


@pytest.fixture
def fake_guest(tmp_path, busybox, monkeypatch):
    monkeypatch.setattr(background_job, "FIRST_POLL_SECONDS", 0.02)
    monkeypatch.setattr(background_job, "MAX_POLL_SECONDS", 0.1)
    return FakeGuest(tmp_path, busybox)


def test_background_job_with_busybox(fake_guest):
    assert background_job.run(
        fake_guest, "m", "one", "cat; exit 3", "x" * 40_000 + "\n", max_output_bytes=3
    ) == CommandResult(3, "xx\n")
    assert background_job.run(fake_guest, "m", "one", "true", max_output_bytes=50_000) == CommandResult(
        3, "x" * 40_000 + "\n"
    )

    def stop_job():
        if fake_guest.host_path("/run/panel/two/running").is_symlink():
            background_job.stop(fake_guest, "m", "two")

    with pytest.raises(background_job.Interrupted):
        background_job.run(fake_guest, "m", "two", "sleep 1000", check=stop_job)


def test_docker_scripts_with_busybox(fake_guest):
    fake_guest.link_program("chmod")
    fake_guest.link_program("env")
    fake_guest.host_path("/etc/os-release").write_text("ID=alpine\nPRETTY_NAME=Alpine\n")
    fake_guest.add_program("docker", DOCKER_SCRIPT.format(home=fake_guest.home))
    (fake_guest.bin / "docker").rename(fake_guest.home / "docker")
    fake_guest.add_program("apk", f"mv {fake_guest.home}/docker {fake_guest.bin}/docker")
    fake_guest.add_program("rc-update")
    docker.install(fake_guest, "m", "task")
    assert "apk add --update-cache docker docker-cli-compose" in fake_guest.read_calls()
    assert "rc-update add docker default" in fake_guest.read_calls()
    docker.deploy_app(fake_guest, "m", "another", "web-1", "services: {}", ENVIRONMENT)
    seen = (fake_guest.home / "seen").read_text().splitlines()
    assert {f"{name}={value}" for name, value in ENVIRONMENT.items()} <= set(seen)
    assert docker.get_status(fake_guest, "m", "web-1") == docker.AppStatus("running", "1 container runs.")
    assert docker.read_logs(fake_guest, "m", "web-1") == "2026-01-01T00:00:01Z web | a\n2026-01-01T00:00:02Z web | b"
    docker.control_app(fake_guest, "m", "web-1", "stop")
    docker.remove_app(fake_guest, "m", "web-1")
    assert list(fake_guest.host_path("/opt/panel-apps").iterdir()) == []
