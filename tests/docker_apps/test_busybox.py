"""The same scripts by busybox alone, as on small systems (OTH-10)."""

import pytest

from tests.docker_apps.fake_guest import Host
from worker.guest import background_job, docker
from worker.nodes.base import Finished

pytestmark = pytest.mark.guest

VALUES = {"ONE": "it's $HOME", "TWO": "'\"`\\$", "THREE": " é "}
DOCKER = """\
case "$1 $2" in
"compose --ansi") env >{home}/seen ;;
"ps -aq") echo one ;;
inspect*) echo "web|running|0|false|0|2020-01-01T00:00:00.1Z|" ;;
"ps -a") echo one web ;;
"logs --timestamps") echo "2026-01-01T00:00:02Z b"; echo "2026-01-01T00:00:01Z a" ;;
esac
"""


@pytest.fixture
def host(tmp_path, guest_cache, tiny_image, monkeypatch):
    monkeypatch.setattr(background_job, "FIRST", 0.02)
    monkeypatch.setattr(background_job, "LAST", 0.1)
    return Host(tmp_path, next(guest_cache.glob("bookworm-*/bin/busybox")))


def test_long_programs(host):
    assert background_job.run(host, "m", "one", "cat; exit 3", "x" * 40_000 + "\n", most=3) == Finished(3, "xx\n")
    assert background_job.run(host, "m", "one", "true", most=50_000) == Finished(3, "x" * 40_000 + "\n")

    def stopped():
        if host.file("/run/panel/two/running").is_symlink():
            background_job.stop(host, "m", "two")

    with pytest.raises(background_job.Interrupted):
        background_job.run(host, "m", "two", "sleep 1000", check=stopped)


def test_docker(host):
    host.link("chmod")
    host.link("env")
    host.file("/etc/os-release").write_text("ID=alpine\nPRETTY_NAME=Alpine\n")
    host.program("docker", DOCKER.format(home=host.home))
    (host.bin / "docker").rename(host.home / "docker")
    host.program("apk", f"mv {host.home}/docker {host.bin}/docker")
    host.program("rc-update")
    docker.install(host, "m", "task")
    assert "apk add --update-cache docker docker-cli-compose" in host.said()
    assert "rc-update add docker default" in host.said()
    docker.up(host, "m", "another", "web-1", "services: {}", VALUES)
    seen = (host.home / "seen").read_text().splitlines()
    assert {f"{name}={value}" for name, value in VALUES.items()} <= set(seen)
    assert docker.status(host, "m", "web-1") == docker.Condition("running", "1 container runs.")
    assert docker.logs(host, "m", "web-1") == "2026-01-01T00:00:01Z web | a\n2026-01-01T00:00:02Z web | b"
    docker.control(host, "m", "web-1", "stop")
    docker.remove(host, "m", "web-1")
    assert list(host.file("/opt/panel-apps").iterdir()) == []
