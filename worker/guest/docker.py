"""Docker in a guest, through its agent: the engine, and apps that Compose runs.

An app's files lie in /opt/panel-apps/<project>, so that its owner can go on with them by hand. What takes long is a
background job (`worker.guest.background_job`). Messages of refusals are for the customer; they contain what Compose
printed, without the values of secrets.
"""

import base64
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from worker.guest import background_job
from worker.nodes.base import NodeDriver, Refused

SCRIPTS = Path(__file__).parent / "docker_scripts"
INSTALL_SCRIPT, COMPOSE_SCRIPT, STATUS_SCRIPT, LOGS_SCRIPT = (
    (SCRIPTS / f"{name}.sh").read_text() for name in ("install", "compose", "look", "logs")
)

REFUSED_EXIT_CODE = 64
"""What a script ends with that has said why, in a sentence."""
PROJECT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
MAX_LOG_BYTES = 256 * 1024
RESTART_LOOP_WINDOW = timedelta(minutes=1)
SIGNAL_EXIT_CODES = (0, 130, 137, 143)
"""How containers end that were told to."""
ANSI_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
LOG_LINE = re.compile(r"(?P<service>\S+) (?P<time>\d{4}-\d\d-\d\dT\S+) ?(?P<text>.*)")
"""Of a container's log. One that was cut is none."""
MAX_MESSAGE_LENGTH = 500


class AppStatus(NamedTuple):
    """How an app does: `running`, `stopped`, `error` (something in it ended badly, ends again and again, or is
    unhealthy) or `missing`, and a sentence about it."""

    status: str
    sentence: str


def no_cancel():
    """Nobody can call it off."""


def install(node: NodeDriver, machine_id: str, name: str, check: Callable[[], None] = no_cancel) -> None:
    """After success Docker runs in the guest, also after its next start, and Compose is there. It may be called again.
    `name` is of the detached program, and `check` is called while it runs. Raises `Refused` with what to do, and what
    `detached.run` raises."""
    done = background_job.run(node, machine_id, name, INSTALL_SCRIPT, check=check)
    if done.exit_code:
        said = last_lines(done.output, 1)
        sentence = (
            said.removeprefix("refused: ")
            if done.exit_code == REFUSED_EXIT_CODE
            else f"Docker was not installed: {said}"
        )
        raise Refused(sentence, error_detail(machine_id, done))


def up(
    node: NodeDriver,
    machine_id: str,
    name: str,
    project: str,
    compose: str,
    environment: dict[str, str],
    check: Callable[[], None] = no_cancel,
) -> None:
    """After success the app of this compose file runs, with its images fetched. It may be called again, also with
    another file. Raises as `install`; then what Compose has made so far stays for the next time."""
    given = [encode(compose), encode(build_env_file(environment))]
    run_compose(node, machine_id, name, "up", project, given, check, environment, "The app could not be started")


def control(
    node: NodeDriver,
    machine_id: str,
    project: str,
    action: str,
    *,
    name: str = "",
    check: Callable[[], None] = no_cancel,
) -> None:
    """Starts, stops or restarts (`action`) the app's containers. Raises as `install`."""
    assert action in ("start", "stop", "restart"), action
    run_compose(node, machine_id, name, action, project, [], check, {}, f"The app could not be told to {action}")


def remove(
    node: NodeDriver, machine_id: str, project: str, *, name: str = "", check: Callable[[], None] = no_cancel
) -> None:
    """Stops and removes the app's containers and networks, and our files. Its volumes stay, and files that the customer
    put beside ours. What is gone already is as good. Raises as `install`."""
    run_compose(node, machine_id, name, "remove", project, [], check, {}, "The app could not be removed")


def run_compose(node, machine_id, name, action, project, given, check, environment, failed):
    assert PROJECT_NAME.fullmatch(project), project
    name = name or f"{project}-{action}-{secrets.token_hex(4)}"
    stdin = "".join(f"{line}\n" for line in (action, project, *given))
    done = background_job.run(node, machine_id, name, COMPOSE_SCRIPT, stdin, check=check)
    if done.exit_code:
        said = redact(environment.values(), last_lines(done.output))
        raise Refused(f"{failed}. {said}" if said else f"{failed}.", f"machine {machine_id}, {project}: {said}")


def status(node: NodeDriver, machine_id: str, project: str) -> AppStatus:
    """How the app does. Raises as `statuses`."""
    return statuses(node, machine_id, [project])[project]


def statuses(node: NodeDriver, machine_id: str, projects: Iterable[str]) -> dict[str, AppStatus]:
    """How each of the apps does, by one call. Raises `AgentSilent` when the guest does not answer, and `Refused`."""
    projects = list(projects)
    assert all(PROJECT_NAME.fullmatch(project) for project in projects), projects
    done = node.agent_run(
        machine_id, ["sh", "-c", STATUS_SCRIPT], stdin="".join(f"{each}\n" for each in projects), deadline=90
    )
    if done.exit_code:
        raise Refused("Docker in the machine did not say how the apps do.", error_detail(machine_id, done))
    now, *lines = done.output.splitlines() or [""]
    if lines == ["away"]:
        away = AppStatus("error", "Docker does not answer in the machine: it is not installed or does not run.")
        return dict.fromkeys(projects, away)
    found = {project: [] for project in projects}
    stopped, seen = set(), None
    for line in lines:
        if line.startswith("project "):
            _, seen, *mark = line.split()
            stopped |= {seen} if mark else set()
        elif seen in found and line.count("|") == 6:
            found[seen].append(line.split("|"))
    return {each: assess_app(containers, each in stopped, parse_time(now)) for each, containers in found.items()}


def assess_app(containers, stopped, now):
    """The condition of an app with these containers; `stopped` says that we were the last to stop it."""
    if not containers:
        return AppStatus("missing", "The app has no containers in the machine.")
    running = [each for each in containers if each[1] in ("running", "restarting")]
    if not running and (stopped or all(has_ended_well(each) for each in containers)):
        return AppStatus("stopped", "The app is stopped.")
    troubles = [trouble for each in containers if (trouble := container_error(each, now))]
    if troubles:
        return AppStatus("error", " ".join(troubles))
    return AppStatus("running", f"{len(running)} {'container runs' if len(running) == 1 else 'containers run'}.")


def has_ended_well(container):
    _, state, code, out_of_memory, *_ = container
    return state in ("created", "paused") or (
        state == "exited" and int(code) in SIGNAL_EXIT_CODES and out_of_memory == "false"
    )


def container_error(container, now):
    """A sentence, if the container is not as it should be while others of its app run."""
    service, state, code, out_of_memory, restarts, started, health = container
    what = f"The container of {service}"
    if out_of_memory == "true" and state != "running":
        return f"{what} had not enough memory."
    if state == "restarting" or (
        state == "running" and int(restarts) > 2 and now - parse_time(started) < RESTART_LOOP_WINDOW
    ):
        return f"{what} ends and is started again and again (exit code {code})."
    if state == "running":
        return f"{what} is unhealthy." if health == "unhealthy" else None
    if state == "exited":
        return None if code == "0" else f"{what} ended with exit code {code}."
    return {"created": f"{what} was not started.", "paused": f"{what} is paused."}.get(state, f"{what} is {state}.")


def logs(node: NodeDriver, machine_id: str, project: str, lines: int = 500) -> str:
    """The newest lines of all the app's containers, at most 256 KiB, oldest first, each with its time and service.
    Raises `AgentSilent` when the guest does not answer, `Refused` when Docker does not."""
    assert PROJECT_NAME.fullmatch(project), project
    stdin = f"{project}\n{int(lines)}\n{MAX_LOG_BYTES}\n"
    done = node.agent_run(machine_id, ["sh", "-c", LOGS_SCRIPT], stdin=stdin, deadline=90)
    if done.exit_code:
        raise Refused("Docker in the machine did not show the logs.", error_detail(machine_id, done))
    found = [LOG_LINE.match(line) for line in ANSI_COLOURS.sub("", done.output).splitlines()]
    text = "\n".join(f"{line['time']} {line['service']} | {line['text']}" for line in found if line)
    return text.encode()[-MAX_LOG_BYTES:].decode(errors="ignore")


def parse_time(text):
    """Docker's times have nanoseconds."""
    return datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00"))


def build_env_file(environment):
    """A file of variables that a shell and every version of Compose read in the same way. Values with both a quote and
    a character that is special in double quotes are exact for the shell, from which Compose then has them."""
    return "".join(f"{name}={quote(value)}\n" for name, value in environment.items())


def quote(value):
    if "'" not in value:
        return f"'{value}'"
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


def encode(text):
    return base64.b64encode(text.encode()).decode()


def last_lines(output, max_lines=3):
    """The last lines that say something."""
    lines = [line.strip() for line in ANSI_COLOURS.sub("", output).splitlines() if line.strip()]
    return " ".join(lines[-max_lines:])[-MAX_MESSAGE_LENGTH:]


def redact(values, text):
    """The text without these values. Short ones are words like `admin` or `true`."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) > 5:
            text = text.replace(value, "•••")
    return text


def error_detail(machine_id, done):
    return f"machine {machine_id}, exit code {done.exit_code}: {done.output.strip()[-2000:]}"
