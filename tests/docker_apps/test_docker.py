"""The Docker scripts in a guest: which programs they call, and the error messages (OTH-10)."""

import io
import re
import stat

import dotenv
import pytest

from worker.guest import docker
from worker.nodes.base import Refused

COMPOSE_FILE = "services:\n  web: {image: 'nginx:1', environment: [X]}\n# $HOME `id` 'é'\n"
SPECIAL_VALUES = {
    "PLAIN": "a b",
    "QUOTE": "it's $HOME",
    "BOTH": "'\"\\$`id`\\n é 🚀",
    "EMPTY": "",
    "SPACES": "  x  # no comment ",
}
DOCKER_SCRIPT = """\
case "$1 $2" in
"version --format") [ -e {home}/engine ] ;;
"compose version") [ -e {home}/compose ] ;;
"--version ") cat {home}/about ;;
"compose --ansi")
    env >{home}/seen
    [ ! -e {home}/words ] || {{ cat {home}/words; exit 1; }}
    ;;
"ps -aq") [ ! -e {home}/containers ] || echo one two ;;
"network ls") [ ! -e {home}/containers ] || echo net ;;
inspect*) cat {home}/inspected ;;
esac
"""


@pytest.fixture
def docker_guest(fake_guest):
    """A fake guest in which Docker with Compose runs."""
    fake_guest.link_program("env")
    fake_guest.add_program("docker", DOCKER_SCRIPT.format(home=fake_guest.home))
    (fake_guest.home / "about").write_text("Docker version 20\n")
    fake_guest.add_program("journalctl", "echo no room")
    set_markers(fake_guest, "engine", "compose")
    return fake_guest


def set_markers(host, *names, on=True):
    """Create or remove the files that the fake Docker program reads its state from."""
    for name in names:
        (host.home / name).touch() if on else (host.home / name).unlink(missing_ok=True)


def list_calls(host, *beginnings):
    """Return the recorded calls with these beginnings, without the test's folder in paths."""
    return [line.replace(str(host.home), "") for line in host.read_calls() if line.startswith(beginnings)]


def assert_refused(call, *args, **options):
    with pytest.raises(Refused) as refusal:
        call(*args, **options)
    return str(refusal.value)


# --- the engine


def prepare_system(host, name, pretty, manager, body):
    """Make the guest a system whose package manager can install Docker, which must then be started."""
    host.host_path("/etc/os-release").write_text(f'ID={name}\nPRETTY_NAME="{pretty}"\n')
    host.add_program("docker", DOCKER_SCRIPT.format(home=host.home))
    (host.bin / "docker").rename(host.home / "docker")
    installs = f"mv {host.home}/docker {host.bin}/docker; touch {host.home}/compose"
    host.add_program(manager, body.format(installs=installs, home=host.home))
    host.host_path("/run/systemd/system").mkdir(parents=True)
    host.add_program("systemd-run", 'shift 2; setsid "$@" </dev/null >/dev/null 2>&1 &')
    host.add_program("systemctl", f'[ "$1" != start ] || touch {host.home}/engine')
    host.add_program("journalctl", "echo no room")
    host.add_program("curl")
    host.add_program("dpkg")


APT_SCRIPT = 'case " $* " in *" install "*) {installs} ;; esac'
SYSTEMCTL_START_CALLS = ["systemctl enable docker.service", "systemctl start docker.service"]


def set_apt_candidates(host, *names):
    pattern = "|".join(names)
    host.add_program(
        "apt-cache", f'case "$2" in {pattern}) echo "  Candidate: 1.0" ;; *) echo "  Candidate: (none)" ;; esac'
    )


@pytest.mark.parametrize(
    ("available", "installed"),
    [
        (("docker.io", "docker-compose", "apparmor"), "docker.io apparmor docker-compose"),
        (("docker.io", "docker-cli", "docker-compose", "apparmor"), "docker.io docker-cli apparmor docker-compose"),
        (("docker.io", "docker-compose", "docker-compose-v2"), "docker.io docker-compose-v2"),
    ],
)
def test_install_uses_distribution_packages_on_debian(fake_guest, available, installed):
    prepare_system(fake_guest, "debian", "Debian", "apt-get", APT_SCRIPT)
    set_apt_candidates(fake_guest, *available)
    docker.install(fake_guest, "m", "task")
    assert list_calls(fake_guest, "dpkg") == ["dpkg --configure -a"]
    *_, line = list_calls(fake_guest, "apt-get")
    assert line.endswith(f" install ca-certificates iptables {installed}")
    assert list_calls(fake_guest, "systemctl") == SYSTEMCTL_START_CALLS
    docker.install(fake_guest, "m", "another")
    assert list_calls(fake_guest, "systemctl") == [*SYSTEMCTL_START_CALLS, SYSTEMCTL_START_CALLS[0]]


@pytest.mark.parametrize(
    ("name", "manager", "expected"),
    [
        ("fedora", "dnf", "dnf -qy install docker-ce docker-ce-cli containerd.io docker-compose-plugin"),
        ("alpine", "apk", "apk add --update-cache docker docker-cli-compose"),
        ("opensuse-leap", "zypper", "zypper -nq install docker docker-compose"),
        ("arch", "pacman", "pacman -Sy --noconfirm --needed docker docker-compose"),
    ],
)
def test_install_uses_package_manager_of_system(fake_guest, name, manager, expected):
    prepare_system(fake_guest, name, name, manager, "{installs}")
    docker.install(fake_guest, "m", "task")
    assert list_calls(fake_guest, manager) == [expected]
    assert list_calls(fake_guest, "systemctl") == SYSTEMCTL_START_CALLS


@pytest.mark.parametrize(("name", "of"), [("fedora", "fedora"), ("rhel", "rhel"), ("almalinux", "centos")])
def test_install_with_dnf_uses_docker_repository(fake_guest, name, of):
    prepare_system(fake_guest, name, name, "dnf", "{installs}")
    docker.install(fake_guest, "m", "task")
    repository = f"https://download.docker.com/linux/{of}/docker-ce.repo"
    assert list_calls(fake_guest, "curl") == [f"curl -fsSL {repository} -o /etc/yum.repos.d/docker-ce.repo"]


def test_install_starts_docker_with_openrc(fake_guest):
    prepare_system(fake_guest, "alpine", "Alpine", "apk", "{installs}")
    fake_guest.host_path("/run/systemd/system").rmdir()
    fake_guest.add_program("rc-update")
    fake_guest.add_program("rc-service", f"touch {fake_guest.home}/engine")
    docker.install(fake_guest, "m", "task")
    assert list_calls(fake_guest, "rc-") == ["rc-update add docker default", "rc-service docker start"]


def test_install_does_nothing_when_docker_runs(docker_guest):
    docker.install(docker_guest, "m", "task")
    assert list_calls(docker_guest, "apt-get", "systemctl") == []


def test_install_adds_missing_compose(docker_guest):
    set_markers(docker_guest, "compose", on=False)
    docker_guest.host_path("/etc/os-release").write_text("ID=debian\nPRETTY_NAME=Debian\n")
    docker_guest.add_program("dpkg")
    docker_guest.add_program("apt-get", f'case " $* " in *" install "*) touch {docker_guest.home}/compose ;; esac')
    set_apt_candidates(docker_guest, "docker.io", "docker-compose-plugin", "docker-compose")
    docker.install(docker_guest, "m", "task")
    assert list_calls(docker_guest, "apt-get")[-1].endswith(" install ca-certificates iptables docker-compose-plugin")


def test_install_waits_for_dpkg_lock(fake_guest):
    locked = 'echo "E: Could not get lock /var/lib/dpkg/lock-frontend"; exit 100'
    count = "n=$(cat {home}/n 2>/dev/null || echo 0)\necho $((n + 1)) >{home}/n\n"
    prepare_system(
        fake_guest, "debian", "Debian", "apt-get", f'{count}[ "$n" -gt 2 ] || {{{{ {locked}; }}}}\n{APT_SCRIPT}'
    )
    set_apt_candidates(fake_guest, "docker.io", "docker-compose")
    fake_guest.add_program("sleep")
    docker.install(fake_guest, "m", "task")
    assert list_calls(fake_guest, "sleep 10") == ["sleep 10"] * 3
    (fake_guest.home / "n").write_text("-1000")
    (fake_guest.home / "engine").unlink()
    (fake_guest.bin / "docker").rename(fake_guest.home / "docker")
    assert "ten minutes" in assert_refused(docker.install, fake_guest, "m", "another")


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("Temporary failure resolving 'packages.example.com'", "look at its network, its DNS"),
        ("E: Unable to locate package docker.io", "package sources of Debian 9 have no Docker"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "disk does not have enough room"),
        ("dpkg: error processing package docker.io", "was not installed: dpkg: error processing"),
    ],
)
def test_package_manager_errors_are_explained(fake_guest, output, sentence):
    prepare_system(
        fake_guest, "debian", "Debian 9", "apt-get", f'case " $* " in *" install "*) echo "{output}"; exit 100 ;; esac'
    )
    set_apt_candidates(fake_guest, "none")
    assert sentence in assert_refused(docker.install, fake_guest, "m", "task")


def test_unreachable_package_sources_are_reported(fake_guest):
    """apt reports the network error only during `update`."""
    away = "W: Failed to fetch http://packages.example.com: Temporary failure resolving"
    none = "E: Unable to locate package docker.io"
    body = f'case " $* " in *" update "*) echo "{away}" ;; *) echo "{none}"; exit 100 ;; esac'
    prepare_system(fake_guest, "debian", "Debian", "apt-get", body)
    set_apt_candidates(fake_guest, "none")
    assert "look at its network, its DNS" in assert_refused(docker.install, fake_guest, "m", "task")


def test_install_waits_for_cloud_init(fake_guest):
    """cloud-init installs packages and configures package sources."""
    prepare_system(fake_guest, "debian", "Debian", "apt-get", APT_SCRIPT)
    set_apt_candidates(fake_guest, "docker.io", "docker-compose")
    fake_guest.add_program("cloud-init")
    docker.install(fake_guest, "m", "task")
    order = list_calls(fake_guest, "cloud-init", "apt-get")
    assert order[0] == "cloud-init status --wait"
    assert len(order) == 3


def test_system_without_package_manager_is_refused(fake_guest):
    fake_guest.host_path("/etc/os-release").write_text('PRETTY_NAME="Tiny 1"\n')
    assert "none of the package managers" in assert_refused(docker.install, fake_guest, "m", "task")
    fake_guest.host_path("/etc/os-release").unlink()
    assert "none of the package managers" in assert_refused(docker.install, fake_guest, "m", "another")


def test_podman_instead_of_docker_is_refused(docker_guest):
    set_markers(docker_guest, "engine", "compose", on=False)
    (docker_guest.home / "about").write_text("podman version 4\n")
    assert "Podman" in assert_refused(docker.install, docker_guest, "m", "task")


def test_engine_start_failure_is_explained(docker_guest):
    set_markers(docker_guest, "engine", on=False)
    docker_guest.host_path("/run/systemd/system").mkdir(parents=True)
    docker_guest.add_program("systemd-run", 'shift 2; setsid "$@" </dev/null >/dev/null 2>&1 &')
    docker_guest.add_program("systemctl", "exit 1")
    docker_guest.add_program("sleep")
    assert "Restart the machine" in assert_refused(docker.install, docker_guest, "m", "task")
    docker_guest.add_program("uname", "echo this")
    docker_guest.host_path("/lib/modules/this").mkdir(parents=True)
    assert "does not start. Look at its log" in assert_refused(docker.install, docker_guest, "m", "another")


# --- apps


def start_app(host, name="task", environment=SPECIAL_VALUES, compose=COMPOSE_FILE):
    docker.deploy_app(host, "m", name, "web-1", compose, environment)


def test_app_files_are_readable_only_by_root(docker_guest):
    start_app(docker_guest)
    folder = docker_guest.host_path("/opt/panel-apps/web-1")
    assert (folder / "compose.yaml").read_text() == COMPOSE_FILE
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "compose.yaml": 0o600,
        ".env": 0o600,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list_calls(docker_guest, "docker compose --ansi") == [
        "docker compose --ansi never -p web-1 -f /opt/panel-apps/web-1/compose.yaml up -d --quiet-pull --remove-orphans"
    ]
    assert not [word for command in docker_guest.calls for word in command if "HOME`" in word or "nginx" in word]


def test_compose_receives_unchanged_values(docker_guest):
    start_app(docker_guest)
    seen = dict(line.partition("=")[::2] for line in (docker_guest.home / "seen").read_text().splitlines())
    assert {name: seen[name] for name in SPECIAL_VALUES} == SPECIAL_VALUES


@pytest.mark.parametrize("value", ["", "a b", "it's", "  $x  # no comment ", '"\\`é🚀'])
def test_env_file_is_readable_by_dotenv(value):
    """python-dotenv is the parser of Compose v1."""
    text = docker.build_env_file({"X": value, "Y": "1"})
    assert dotenv.dotenv_values(stream=io.StringIO(text), interpolate=False) == {"X": value, "Y": "1"}


def test_compose_error_is_shown_without_secrets(docker_guest):
    error = "\x1b[31mERROR\x1b[0m: manifest for nginx:1 not found, s3cret-s3cret"
    (docker_guest.home / "words").write_text(f"Creating network\n\nPulling web (nginx:1)...\n{error}\n")
    error_message = assert_refused(start_app, docker_guest, environment={"PASSWORD": "s3cret-s3cret", "USER": "web"})
    assert error_message == (
        "The app could not be started. Creating network Pulling web (nginx:1)... "
        "ERROR: manifest for nginx:1 not found, •••"
    )
    (docker_guest.home / "words").unlink()
    start_app(docker_guest, "another")


def test_compose_v1_is_supported(docker_guest):
    set_markers(docker_guest, "compose", on=False)
    assert "Compose is not installed" in assert_refused(start_app, docker_guest)
    docker_guest.add_program("docker-compose")
    start_app(docker_guest, "another")
    assert list_calls(docker_guest, "docker-compose") == [
        "docker-compose --ansi never -p web-1 -f /opt/panel-apps/web-1/compose.yaml up -d --quiet-pull --remove-orphans"
    ]


def test_app_stop_start_and_restart(docker_guest):
    assert "Deploy it again" in assert_refused(docker.control_app, docker_guest, "m", "web-1", "stop")
    start_app(docker_guest)
    mark = docker_guest.host_path("/opt/panel-apps/web-1/stopped")
    docker.control_app(docker_guest, "m", "web-1", "stop")
    assert mark.exists()
    docker.control_app(docker_guest, "m", "web-1", "restart")
    assert not mark.exists()
    docker.control_app(docker_guest, "m", "web-1", "stop", name="named")
    docker.control_app(docker_guest, "m", "web-1", "start")
    assert not mark.exists()
    commands = [line.split("compose.yaml ")[1] for line in list_calls(docker_guest, "docker compose --ansi")]
    again = "up -d --quiet-pull --remove-orphans"
    assert commands == [again, "stop", "restart", "stop", again]


def test_app_removal_keeps_volumes_and_foreign_files(docker_guest):
    start_app(docker_guest)
    html_path = docker_guest.host_path("/opt/panel-apps/web-1/html")
    html_path.mkdir()
    set_markers(docker_guest, "containers")
    docker.remove_app(docker_guest, "m", "web-1")
    own_commands = r"docker (stop|rm|network rm|volume|compose --ansi never .* down)\b"
    assert [line for line in list_calls(docker_guest, "docker") if re.match(own_commands, line)] == [
        "docker stop one two",
        "docker rm one two",
        "docker network rm net",
    ]
    assert list(html_path.parent.iterdir()) == [html_path]
    html_path.rmdir()
    set_markers(docker_guest, "containers", on=False)
    docker.remove_app(docker_guest, "m", "web-1")
    assert not html_path.parent.exists()
    (docker_guest.bin / "docker").unlink()
    docker.remove_app(docker_guest, "m", "web-1")


# --- status and logs


def format_container(
    service="web", state="running", code=0, memory="false", restarts=0, started="2020-01-01T00:00:00", health=""
):
    return f"{service}|{state}|{code}|{memory}|{restarts}|{started}.123456789Z|{health}"


@pytest.mark.parametrize(
    ("containers", "status", "sentence"),
    [
        ([format_container()], "running", "1 container runs."),
        ([format_container(), format_container("init", "exited")], "running", "1 container runs."),
        ([format_container(restarts=9, health="healthy")] * 2, "running", "2 containers run."),
        ([format_container(health="starting")], "running", "1 container runs."),
        (
            [format_container(state="exited", code=143), format_container("db", "exited", 137)],
            "stopped",
            "The app is stopped.",
        ),
        ([format_container(state="exited", code=1)], "error", "The container of web ended with exit code 1."),
        (
            [format_container(), format_container("db", "exited", 1)],
            "error",
            "The container of db ended with exit code 1.",
        ),
        (
            [format_container(state="exited", code=137, memory="true")],
            "error",
            "The container of web ran out of memory.",
        ),
        (
            [format_container(state="restarting", code=2)],
            "error",
            "The container of web ends and is started again and again (exit code 2).",
        ),
        (
            [format_container(restarts=3, started="2999-01-01T00:00:00")],
            "error",
            "The container of web ends and is started again and again (exit code 0).",
        ),
        ([format_container(health="unhealthy")], "error", "The container of web is unhealthy."),
        ([format_container(), format_container("db", "created")], "error", "The container of db was not started."),
        ([format_container(), format_container("db", "paused")], "error", "The container of db is paused."),
        ([format_container(), format_container("db", "dead")], "error", "The container of db is dead."),
        ([], "missing", "The app has no containers in the instance."),
    ],
)
def test_app_status_from_containers(docker_guest, containers, status, sentence):
    (docker_guest.home / "inspected").write_text("".join(f"{container}\n" for container in containers))
    set_markers(docker_guest, "containers", on=bool(containers))
    assert docker.get_status(docker_guest, "m", "web-1") == docker.AppStatus(status, sentence)


def test_stopped_app_status_ignores_exit_code(docker_guest):
    start_app(docker_guest)
    docker.control_app(docker_guest, "m", "web-1", "stop")
    (docker_guest.home / "inspected").write_text(format_container(state="exited", code=1) + "\n")
    set_markers(docker_guest, "containers")
    assert docker.get_status(docker_guest, "m", "web-1").status == "stopped"
    statuses = docker.get_statuses(docker_guest, "m", ["web-1", "web-2"])
    assert {project: app_status.status for project, app_status in statuses.items()} == {
        "web-1": "stopped",
        "web-2": "error",
    }


def test_stopped_engine_sets_error_of_every_app(docker_guest):
    set_markers(docker_guest, "engine", on=False)
    statuses = docker.get_statuses(docker_guest, "m", ["web-1", "web-2"])
    assert [status.status for status in statuses.values()] == ["error", "error"]
    assert "does not respond" in statuses["web-2"].sentence


def test_logs_are_sorted_by_time(fake_guest):
    fake_guest.add_program(
        "docker",
        """\
case "$1 $5" in
ps*) echo one web; echo two db ;;
"logs one") echo "2026-01-01T00:00:01Z a"; echo "2026-01-01T00:00:03Z \033[31mc\033[0m" >&2 ;;
"logs two") echo "2026-01-01T00:00:02Z b | é" ;;
esac
""",
    )
    assert docker.read_logs(fake_guest, "m", "web-1").splitlines() == [
        "2026-01-01T00:00:01Z web | a",
        "2026-01-01T00:00:02Z db | b | é",
        "2026-01-01T00:00:03Z web | c",
    ]
    assert docker.read_logs(fake_guest, "m", "web-1", lines=1) == "2026-01-01T00:00:03Z web | c"
    assert "docker logs --timestamps --tail 500 one" in fake_guest.read_calls()


def test_logs_are_limited_in_size(fake_guest):
    line = "2026-01-01T00:00:01Z " + "é" * 60
    fake_guest.link_program("yes")
    fake_guest.add_program("docker", f'case "$1" in ps) echo one web ;; *) yes "{line}" | head -n 9000 ;; esac')
    text = docker.read_logs(fake_guest, "m", "web-1", lines=9000)
    assert 200_000 < len(text.encode()) <= docker.MAX_LOG_BYTES
    fake_guest.add_program("docker", "")
    assert docker.read_logs(fake_guest, "m", "web-1") == ""
    fake_guest.add_program("docker", "echo Cannot connect to the Docker daemon; exit 1")
    assert "did not return" in assert_refused(docker.read_logs, fake_guest, "m", "web-1")
