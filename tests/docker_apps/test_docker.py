"""Docker in a guest, as its scripts do it: which programs are asked for what, and what people are told (OTH-10)."""

import io
import re
import stat

import dotenv
import pytest

from worker.guest import docker
from worker.nodes.base import Refused

COMPOSE = "services:\n  web: {image: 'nginx:1', environment: [X]}\n# $HOME `id` 'é'\n"
NASTY = {
    "PLAIN": "a b",
    "QUOTE": "it's $HOME",
    "BOTH": "'\"\\$`id`\\n é 🚀",
    "EMPTY": "",
    "SPACES": "  x  # no comment ",
}
ENGINE = """\
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
def engine(fake_guest):
    """Docker with Compose runs."""
    fake_guest.link("env")
    fake_guest.program("docker", ENGINE.format(home=fake_guest.home))
    (fake_guest.home / "about").write_text("Docker version 20\n")
    fake_guest.program("journalctl", "echo no room")
    switch_programs(fake_guest, "engine", "compose")
    return fake_guest


def switch_programs(host, *names, on=True):
    for name in names:
        (host.home / name).touch() if on else (host.home / name).unlink(missing_ok=True)


def program_calls(host, *beginnings):
    """What programs were asked that begin so, without where the test has its files."""
    return [line.replace(str(host.home), "") for line in host.said() if line.startswith(beginnings)]


def assert_refused(call, *args, **options):
    with pytest.raises(Refused) as refusal:
        call(*args, **options)
    return str(refusal.value)


# --- the engine


def system(host, name, pretty, manager, body):
    """A system whose package manager has Docker, which does not run at once."""
    host.file("/etc/os-release").write_text(f'ID={name}\nPRETTY_NAME="{pretty}"\n')
    host.program("docker", ENGINE.format(home=host.home))
    (host.bin / "docker").rename(host.home / "docker")
    installs = f"mv {host.home}/docker {host.bin}/docker; touch {host.home}/compose"
    host.program(manager, body.format(installs=installs, home=host.home))
    host.file("/run/systemd/system").mkdir(parents=True)
    host.program("systemd-run", 'shift 2; setsid "$@" </dev/null >/dev/null 2>&1 &')
    host.program("systemctl", f'[ "$1" != start ] || touch {host.home}/engine')
    host.program("journalctl", "echo no room")
    host.program("curl")
    host.program("dpkg")


APT = 'case " $* " in *" install "*) {installs} ;; esac'
STARTED = ["systemctl enable docker.service", "systemctl start docker.service"]


def candidates(host, *names):
    found = "|".join(names)
    host.program("apt-cache", f'case "$2" in {found}) echo "  Candidate: 1.0" ;; *) echo "  Candidate: (none)" ;; esac')


@pytest.mark.parametrize(
    ("available", "installed"),
    [
        (("docker.io", "docker-compose", "apparmor"), "docker.io apparmor docker-compose"),
        (("docker.io", "docker-cli", "docker-compose", "apparmor"), "docker.io docker-cli apparmor docker-compose"),
        (("docker.io", "docker-compose", "docker-compose-v2"), "docker.io docker-compose-v2"),
    ],
)
def test_debian_and_ubuntu_install_their_own_packages(fake_guest, available, installed):
    system(fake_guest, "debian", "Debian", "apt-get", APT)
    candidates(fake_guest, *available)
    docker.install(fake_guest, "m", "task")
    assert program_calls(fake_guest, "dpkg") == ["dpkg --configure -a"]
    *_, line = program_calls(fake_guest, "apt-get")
    assert line.endswith(f" install ca-certificates iptables {installed}")
    assert program_calls(fake_guest, "systemctl") == STARTED
    docker.install(fake_guest, "m", "another")
    assert program_calls(fake_guest, "systemctl") == [*STARTED, STARTED[0]]


@pytest.mark.parametrize(
    ("name", "manager", "expected"),
    [
        ("fedora", "dnf", "dnf -qy install docker-ce docker-ce-cli containerd.io docker-compose-plugin"),
        ("alpine", "apk", "apk add --update-cache docker docker-cli-compose"),
        ("opensuse-leap", "zypper", "zypper -nq install docker docker-compose"),
        ("arch", "pacman", "pacman -Sy --noconfirm --needed docker docker-compose"),
    ],
)
def test_other_systems_install_theirs(fake_guest, name, manager, expected):
    system(fake_guest, name, name, manager, "{installs}")
    docker.install(fake_guest, "m", "task")
    assert program_calls(fake_guest, manager) == [expected]
    assert program_calls(fake_guest, "systemctl") == STARTED


@pytest.mark.parametrize(("name", "of"), [("fedora", "fedora"), ("rhel", "rhel"), ("almalinux", "centos")])
def test_dnf_takes_docker_s_own_packages(fake_guest, name, of):
    system(fake_guest, name, name, "dnf", "{installs}")
    docker.install(fake_guest, "m", "task")
    repository = f"https://download.docker.com/linux/{of}/docker-ce.repo"
    assert program_calls(fake_guest, "curl") == [f"curl -fsSL {repository} -o /etc/yum.repos.d/docker-ce.repo"]


def test_openrc_starts_it_too(fake_guest):
    system(fake_guest, "alpine", "Alpine", "apk", "{installs}")
    fake_guest.file("/run/systemd/system").rmdir()
    fake_guest.program("rc-update")
    fake_guest.program("rc-service", f"touch {fake_guest.home}/engine")
    docker.install(fake_guest, "m", "task")
    assert program_calls(fake_guest, "rc-") == ["rc-update add docker default", "rc-service docker start"]


def test_what_is_there_already_is_fine(engine):
    docker.install(engine, "m", "task")
    assert program_calls(engine, "apt-get", "systemctl") == []


def test_an_engine_without_compose_gets_it(engine):
    switch_programs(engine, "compose", on=False)
    engine.file("/etc/os-release").write_text("ID=debian\nPRETTY_NAME=Debian\n")
    engine.program("dpkg")
    engine.program("apt-get", f'case " $* " in *" install "*) touch {engine.home}/compose ;; esac')
    candidates(engine, "docker.io", "docker-compose-plugin", "docker-compose")
    docker.install(engine, "m", "task")
    assert program_calls(engine, "apt-get")[-1].endswith(" install ca-certificates iptables docker-compose-plugin")


def test_a_lock_of_somebody_else_is_waited_for(fake_guest):
    locked = 'echo "E: Could not get lock /var/lib/dpkg/lock-frontend"; exit 100'
    count = "n=$(cat {home}/n 2>/dev/null || echo 0)\necho $((n + 1)) >{home}/n\n"
    system(fake_guest, "debian", "Debian", "apt-get", f'{count}[ "$n" -gt 2 ] || {{{{ {locked}; }}}}\n{APT}')
    candidates(fake_guest, "docker.io", "docker-compose")
    fake_guest.program("sleep")
    docker.install(fake_guest, "m", "task")
    assert program_calls(fake_guest, "sleep 10") == ["sleep 10"] * 3
    (fake_guest.home / "n").write_text("-1000")
    (fake_guest.home / "engine").unlink()
    (fake_guest.bin / "docker").rename(fake_guest.home / "docker")
    assert "ten minutes" in assert_refused(docker.install, fake_guest, "m", "another")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("Temporary failure resolving 'packages.example.com'", "look at its network, its DNS"),
        ("E: Unable to locate package docker.io", "package sources of Debian 9 have no Docker"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "disk does not have enough room"),
        ("dpkg: error processing package docker.io", "was not installed: dpkg: error processing"),
    ],
)
def test_what_a_package_manager_refuses_becomes_a_sentence(fake_guest, said, sentence):
    system(
        fake_guest, "debian", "Debian 9", "apt-get", f'case " $* " in *" install "*) echo "{said}"; exit 100 ;; esac'
    )
    candidates(fake_guest, "none")
    assert sentence in assert_refused(docker.install, fake_guest, "m", "task")


def test_sources_that_cannot_be_reached_are_not_taken_for_empty(fake_guest):
    """apt says so only while it looks for what there is."""
    away = "W: Failed to fetch http://packages.example.com: Temporary failure resolving"
    none = "E: Unable to locate package docker.io"
    body = f'case " $* " in *" update "*) echo "{away}" ;; *) echo "{none}"; exit 100 ;; esac'
    system(fake_guest, "debian", "Debian", "apt-get", body)
    candidates(fake_guest, "none")
    assert "look at its network, its DNS" in assert_refused(docker.install, fake_guest, "m", "task")


def test_the_first_boot_is_waited_for(fake_guest):
    """It installs packages too, and says where they come from."""
    system(fake_guest, "debian", "Debian", "apt-get", APT)
    candidates(fake_guest, "docker.io", "docker-compose")
    fake_guest.program("cloud-init")
    docker.install(fake_guest, "m", "task")
    order = program_calls(fake_guest, "cloud-init", "apt-get")
    assert order[0] == "cloud-init status --wait"
    assert len(order) == 3


def test_systems_that_cannot_have_it_are_told_what_to_do(fake_guest):
    fake_guest.file("/etc/os-release").write_text('PRETTY_NAME="Tiny 1"\n')
    assert "none of the package managers" in assert_refused(docker.install, fake_guest, "m", "task")
    fake_guest.file("/etc/os-release").unlink()
    assert "none of the package managers" in assert_refused(docker.install, fake_guest, "m", "another")


def test_podman_in_the_place_of_docker_is_told(engine):
    switch_programs(engine, "engine", "compose", on=False)
    (engine.home / "about").write_text("podman version 4\n")
    assert "Podman" in assert_refused(docker.install, engine, "m", "task")


def test_an_engine_that_does_not_start_is_told(engine):
    switch_programs(engine, "engine", on=False)
    engine.file("/run/systemd/system").mkdir(parents=True)
    engine.program("systemd-run", 'shift 2; setsid "$@" </dev/null >/dev/null 2>&1 &')
    engine.program("systemctl", "exit 1")
    engine.program("sleep")
    assert "Restart the machine" in assert_refused(docker.install, engine, "m", "task")
    engine.program("uname", "echo this")
    engine.file("/lib/modules/this").mkdir(parents=True)
    assert "does not start. Look at its log" in assert_refused(docker.install, engine, "m", "another")


# --- apps


def compose_up(host, name="task", environment=NASTY, compose=COMPOSE):
    docker.up(host, "m", name, "web-1", compose, environment)


def test_an_app_is_started_with_its_files_for_nobody_elses_eyes(engine):
    compose_up(engine)
    folder = engine.file("/opt/panel-apps/web-1")
    assert (folder / "compose.yaml").read_text() == COMPOSE
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "compose.yaml": 0o600,
        ".env": 0o600,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert program_calls(engine, "docker compose --ansi") == [
        "docker compose --ansi never -p web-1 -f /opt/panel-apps/web-1/compose.yaml up -d --quiet-pull --remove-orphans"
    ]
    assert not [word for command in engine.calls for word in command if "HOME`" in word or "nginx" in word]


def test_compose_gets_the_values_as_they_were_given(engine):
    compose_up(engine)
    seen = dict(line.partition("=")[::2] for line in (engine.home / "seen").read_text().splitlines())
    assert {name: seen[name] for name in NASTY} == NASTY


@pytest.mark.parametrize("value", ["", "a b", "it's", "  $x  # no comment ", '"\\`é🚀'])
def test_the_file_of_values_is_what_compose_reads_too(value):
    """With python-dotenv, as the first version of Compose, and without a shell."""
    text = docker.build_env_file({"X": value, "Y": "1"})
    assert dotenv.dotenv_values(stream=io.StringIO(text), interpolate=False) == {"X": value, "Y": "1"}


def test_an_app_that_does_not_start_says_composes_words_without_secrets(engine):
    error = "\x1b[31mERROR\x1b[0m: manifest for nginx:1 not found, s3cret-s3cret"
    (engine.home / "words").write_text(f"Creating network\n\nPulling web (nginx:1)...\n{error}\n")
    told = assert_refused(compose_up, engine, environment={"PASSWORD": "s3cret-s3cret", "USER": "web"})
    assert told == (
        "The app could not be started. Creating network Pulling web (nginx:1)... "
        "ERROR: manifest for nginx:1 not found, •••"
    )
    (engine.home / "words").unlink()
    compose_up(engine, "another")


def test_the_first_version_of_compose_does_as_well(engine):
    switch_programs(engine, "compose", on=False)
    assert "Compose is not installed" in assert_refused(compose_up, engine)
    engine.program("docker-compose")
    compose_up(engine, "another")
    assert program_calls(engine, "docker-compose") == [
        "docker-compose --ansi never -p web-1 -f /opt/panel-apps/web-1/compose.yaml up -d --quiet-pull --remove-orphans"
    ]


def test_an_app_is_stopped_started_and_restarted(engine):
    assert "Deploy it again" in assert_refused(docker.control, engine, "m", "web-1", "stop")
    compose_up(engine)
    mark = engine.file("/opt/panel-apps/web-1/stopped")
    docker.control(engine, "m", "web-1", "stop")
    assert mark.exists()
    docker.control(engine, "m", "web-1", "restart")
    assert not mark.exists()
    docker.control(engine, "m", "web-1", "stop", name="named")
    docker.control(engine, "m", "web-1", "start")
    assert not mark.exists()
    words = [line.split("compose.yaml ")[1] for line in program_calls(engine, "docker compose --ansi")]
    again = "up -d --quiet-pull --remove-orphans"
    assert words == [again, "stop", "restart", "stop", again]


def test_what_is_removed_leaves_volumes_and_the_customers_files(engine):
    compose_up(engine)
    mine = engine.file("/opt/panel-apps/web-1/html")
    mine.mkdir()
    switch_programs(engine, "containers")
    docker.remove(engine, "m", "web-1")
    ours = r"docker (stop|rm|network rm|volume|compose --ansi never .* down)\b"
    assert [line for line in program_calls(engine, "docker") if re.match(ours, line)] == [
        "docker stop one two",
        "docker rm one two",
        "docker network rm net",
    ]
    assert list(mine.parent.iterdir()) == [mine]
    mine.rmdir()
    switch_programs(engine, "containers", on=False)
    docker.remove(engine, "m", "web-1")
    assert not mine.parent.exists()
    (engine.bin / "docker").unlink()
    docker.remove(engine, "m", "web-1")


# --- how they do


def container(
    service="web", state="running", code=0, memory="false", restarts=0, started="2020-01-01T00:00:00", health=""
):
    return f"{service}|{state}|{code}|{memory}|{restarts}|{started}.123456789Z|{health}"


@pytest.mark.parametrize(
    ("containers", "status", "sentence"),
    [
        ([container()], "running", "1 container runs."),
        ([container(), container("init", "exited")], "running", "1 container runs."),
        ([container(restarts=9, health="healthy")] * 2, "running", "2 containers run."),
        ([container(health="starting")], "running", "1 container runs."),
        ([container(state="exited", code=143), container("db", "exited", 137)], "stopped", "The app is stopped."),
        ([container(state="exited", code=1)], "error", "The container of web ended with exit code 1."),
        ([container(), container("db", "exited", 1)], "error", "The container of db ended with exit code 1."),
        ([container(state="exited", code=137, memory="true")], "error", "The container of web ran out of memory."),
        (
            [container(state="restarting", code=2)],
            "error",
            "The container of web ends and is started again and again (exit code 2).",
        ),
        (
            [container(restarts=3, started="2999-01-01T00:00:00")],
            "error",
            "The container of web ends and is started again and again (exit code 0).",
        ),
        ([container(health="unhealthy")], "error", "The container of web is unhealthy."),
        ([container(), container("db", "created")], "error", "The container of db was not started."),
        ([container(), container("db", "paused")], "error", "The container of db is paused."),
        ([container(), container("db", "dead")], "error", "The container of db is dead."),
        ([], "missing", "The app has no containers in the instance."),
    ],
)
def test_app_status_from_containers(engine, containers, status, sentence):
    (engine.home / "inspected").write_text("".join(f"{each}\n" for each in containers))
    switch_programs(engine, "containers", on=bool(containers))
    assert docker.status(engine, "m", "web-1") == docker.AppStatus(status, sentence)


def test_what_we_stopped_is_stopped_however_it_ended(engine):
    compose_up(engine)
    docker.control(engine, "m", "web-1", "stop")
    (engine.home / "inspected").write_text(container(state="exited", code=1) + "\n")
    switch_programs(engine, "containers")
    assert docker.status(engine, "m", "web-1").status == "stopped"
    found = docker.statuses(engine, "m", ["web-1", "web-2"])
    assert {project: each.status for project, each in found.items()} == {"web-1": "stopped", "web-2": "error"}


def test_an_engine_that_is_away_is_an_error_of_every_app(engine):
    switch_programs(engine, "engine", on=False)
    found = docker.statuses(engine, "m", ["web-1", "web-2"])
    assert [each.status for each in found.values()] == ["error", "error"]
    assert "does not respond" in found["web-2"].sentence


def test_logs_are_in_the_order_of_their_times(fake_guest):
    fake_guest.program(
        "docker",
        """\
case "$1 $5" in
ps*) echo one web; echo two db ;;
"logs one") echo "2026-01-01T00:00:01Z a"; echo "2026-01-01T00:00:03Z \033[31mc\033[0m" >&2 ;;
"logs two") echo "2026-01-01T00:00:02Z b | é" ;;
esac
""",
    )
    assert docker.logs(fake_guest, "m", "web-1").splitlines() == [
        "2026-01-01T00:00:01Z web | a",
        "2026-01-01T00:00:02Z db | b | é",
        "2026-01-01T00:00:03Z web | c",
    ]
    assert docker.logs(fake_guest, "m", "web-1", lines=1) == "2026-01-01T00:00:03Z web | c"
    assert "docker logs --timestamps --tail 500 one" in fake_guest.said()


def test_logs_are_not_longer_than_what_may_be_kept(fake_guest):
    line = "2026-01-01T00:00:01Z " + "é" * 60
    fake_guest.link("yes")
    fake_guest.program("docker", f'case "$1" in ps) echo one web ;; *) yes "{line}" | head -n 9000 ;; esac')
    text = docker.logs(fake_guest, "m", "web-1", lines=9000)
    assert 200_000 < len(text.encode()) <= docker.MAX_LOG_BYTES
    fake_guest.program("docker", "")
    assert docker.logs(fake_guest, "m", "web-1") == ""
    fake_guest.program("docker", "echo Cannot connect to the Docker daemon; exit 1")
    assert "did not return" in assert_refused(docker.logs, fake_guest, "m", "web-1")
