"""Docker in a guest, through its guest agent: the engine, and apps that Compose runs.

An app's files are in /opt/panel-apps/<project>, so that its owner can continue with them by hand. Long operations are
background jobs (`worker.guest.background_job`). Messages of `Refused` are for the customer; they contain Compose's
output, without the values of secrets.
"""

import base64
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from panel.core.messages import join_messages, message, plural_message
from worker.guest import background_job
from worker.nodes.base import NodeDriver, Refused

SCRIPTS_FOLDER = Path(__file__).parent / "docker_scripts"
INSTALL_SCRIPT, COMPOSE_SCRIPT, STATUS_SCRIPT, LOGS_SCRIPT = (
    (SCRIPTS_FOLDER / f"{name}.sh").read_text() for name in ("install", "compose", "status", "logs")
)

REFUSED_EXIT_CODE = 64
"""Exit code of a script that printed its reason as a sentence."""
PROJECT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
MAX_LOG_BYTES = 256 * 1024
RESTART_LOOP_WINDOW = timedelta(minutes=1)
SIGNAL_EXIT_CODES = (0, 130, 137, 143)
"""Exit codes of containers that were asked to stop."""
ANSI_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
LOG_LINE = re.compile(r"(?P<service>\S+) (?P<time>\d{4}-\d\d-\d\dT\S+) ?(?P<text>.*)")
"""A line of a container's log. A line that was cut does not match."""
MAX_MESSAGE_LENGTH = 500


class AppStatus(NamedTuple):
    """The status of an app: `running`, `stopped`, `error` (a container failed, restarts again and again, or is
    unhealthy) or `missing`, and a sentence about it."""

    status: str
    sentence: str


def ignore_cancel():
    """Do nothing: for work that cannot be cancelled."""


def install(node: NodeDriver, machine_id: str, name: str, check: Callable[[], None] = ignore_cancel) -> None:
    """After success Docker runs in the guest, also after its next start, and Compose is installed. May be repeated.
    `name` is the background job's, and `check` is called while it runs. Raises `Refused` with what to do, and what
    `background_job.run` raises."""
    result = background_job.run(node, machine_id, name, INSTALL_SCRIPT, check=check)
    if result.exit_code:
        last_line = join_last_lines(result.output, 1)
        if result.exit_code == REFUSED_EXIT_CODE:
            sentence = last_line.removeprefix("refused: ")
        else:
            sentence = message("Docker was not installed: {output}", output=last_line)
        raise Refused(sentence, describe_failure(machine_id, result))


def deploy_app(
    node: NodeDriver,
    machine_id: str,
    name: str,
    project: str,
    compose: str,
    environment: dict[str, str],
    check: Callable[[], None] = ignore_cancel,
) -> None:
    """After success the app of this compose file runs, with its images downloaded. May be repeated, also with another
    file. Raises as `install`; then what Compose has created so far stays for the next attempt."""
    arguments = [encode(compose), encode(build_env_file(environment))]
    run_compose(
        node, machine_id, name, "up", project, arguments, check, environment, message("The app could not be started.")
    )


CONTROL_ERRORS = {
    "start": message("The app could not be started."),
    "stop": message("The app could not be stopped."),
    "restart": message("The app could not be restarted."),
}


def control_app(
    node: NodeDriver,
    machine_id: str,
    project: str,
    action: str,
    *,
    name: str = "",
    check: Callable[[], None] = ignore_cancel,
) -> None:
    """Start, stop or restart (`action`) the app's containers. Raises as `install`."""
    assert action in CONTROL_ERRORS, action
    run_compose(
        node,
        machine_id,
        name,
        action,
        project,
        [],
        check,
        {},
        CONTROL_ERRORS[action],
    )


def remove_app(
    node: NodeDriver, machine_id: str, project: str, *, name: str = "", check: Callable[[], None] = ignore_cancel
) -> None:
    """Stop and remove the app's containers and networks, and the panel's files. Its volumes stay, and so do files that
    the customer put beside them. An app that is gone already is no error. Raises as `install`."""
    run_compose(node, machine_id, name, "remove", project, [], check, {}, message("The app could not be removed."))


def run_compose(node, machine_id, name, action, project, arguments, check, environment, error_sentence):
    assert PROJECT_NAME.fullmatch(project), project
    name = name or f"{project}-{action}-{secrets.token_hex(4)}"
    stdin = "".join(f"{line}\n" for line in (action, project, *arguments))
    result = background_job.run(node, machine_id, name, COMPOSE_SCRIPT, stdin, check=check)
    if result.exit_code:
        output = redact(environment.values(), join_last_lines(result.output))
        raise Refused(
            message("{error} {output}", error=error_sentence, output=output) if output else error_sentence,
            f"machine {machine_id}, {project}: {output}",
        )


def get_status(node: NodeDriver, machine_id: str, project: str) -> AppStatus:
    """Return the app's status. Raises as `get_statuses`."""
    return get_statuses(node, machine_id, [project])[project]


def get_statuses(node: NodeDriver, machine_id: str, projects: Iterable[str]) -> dict[str, AppStatus]:
    """Return the status of each app, by one call. Raises `AgentUnavailable` when the guest does not answer, and
    `Refused`."""
    projects = list(projects)
    assert all(PROJECT_NAME.fullmatch(project) for project in projects), projects
    result = node.agent_run(
        machine_id, ["sh", "-c", STATUS_SCRIPT], stdin="".join(f"{app}\n" for app in projects), deadline=90
    )
    if result.exit_code:
        raise Refused(
            message("Docker in the instance did not report the state of the apps."),
            describe_failure(machine_id, result),
        )
    now, *output_lines = result.output.splitlines() or [""]
    if output_lines == ["away"]:
        away = AppStatus(
            "error", message("Docker does not respond in the instance. It is not installed or not running.")
        )
        return dict.fromkeys(projects, away)
    containers_by_project: dict[str, list] = {project: [] for project in projects}
    stopped, current_project = set(), None
    for output_line in output_lines:
        if output_line.startswith("project "):
            _, current_project, *mark = output_line.split()
            stopped |= {current_project} if mark else set()
        elif current_project in containers_by_project and output_line.count("|") == 6:
            containers_by_project[current_project].append(output_line.split("|"))
    return {
        app: assess_app(containers, app in stopped, parse_time(now))
        for app, containers in containers_by_project.items()
    }


def assess_app(containers, stopped, now):
    """Return the status of an app with these containers; `stopped` says that the panel was the last to stop it."""
    if not containers:
        return AppStatus("missing", message("The app has no containers in the instance."))
    running = [container for container in containers if container[1] in ("running", "restarting")]
    if not running and (stopped or all(has_ended_well(container) for container in containers)):
        return AppStatus("stopped", message("The app is stopped."))
    errors = [error for container in containers if (error := container_error(container, now))]
    if errors:
        return AppStatus("error", join_messages(errors))
    return AppStatus(
        "running", plural_message("{count} container runs.", "{count} containers run.", count=len(running))
    )


def has_ended_well(container):
    _, state, code, out_of_memory, *_ = container
    return state in ("created", "paused") or (
        state == "exited" and int(code) in SIGNAL_EXIT_CODES and out_of_memory == "false"
    )


def container_error(container, now):
    """Return a sentence if the container is not as it should be while others of its app run, else None."""
    service, state, code, out_of_memory, restarts, started, health = container
    if out_of_memory == "true" and state != "running":
        return message("The container of {service} ran out of memory.", service=service)
    if state == "restarting" or (
        state == "running" and int(restarts) > 2 and now - parse_time(started) < RESTART_LOOP_WINDOW
    ):
        return message(
            "The container of {service} ends and is started again and again (exit code {code}).",
            service=service,
            code=code,
        )
    if state == "running":
        return message("The container of {service} is unhealthy.", service=service) if health == "unhealthy" else None
    if state == "exited":
        if code == "0":
            return None
        return message("The container of {service} ended with exit code {code}.", service=service, code=code)
    if state == "created":
        return message("The container of {service} was not started.", service=service)
    if state == "paused":
        return message("The container of {service} is paused.", service=service)
    return message("The container of {service} is {state}.", service=service, state=state)


def read_logs(node: NodeDriver, machine_id: str, project: str, lines: int = 500) -> str:
    """Return the newest lines of all the app's containers, at most 256 KiB, oldest first, each with its time and
    service. Raises `AgentUnavailable` when the guest does not answer, `Refused` when Docker does not."""
    assert PROJECT_NAME.fullmatch(project), project
    stdin = f"{project}\n{int(lines)}\n{MAX_LOG_BYTES}\n"
    result = node.agent_run(machine_id, ["sh", "-c", LOGS_SCRIPT], stdin=stdin, deadline=90)
    if result.exit_code:
        raise Refused(message("Docker in the instance did not return the logs."), describe_failure(machine_id, result))
    matches = [LOG_LINE.match(entry) for entry in ANSI_COLORS.sub("", result.output).splitlines()]
    text = "\n".join(f"{entry['time']} {entry['service']} | {entry['text']}" for entry in matches if entry)
    return text.encode()[-MAX_LOG_BYTES:].decode(errors="ignore")


def parse_time(text):
    """Parse a time of Docker's, which has nanoseconds."""
    return datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00"))


def build_env_file(environment):
    """Return a file of variables that a shell and every version of Compose read in the same way. Values with both a
    quote and a character that is special in double quotes are exact only for the shell, which passes them on to
    Compose."""
    return "".join(f"{name}={quote(value)}\n" for name, value in environment.items())


def quote(value):
    if "'" not in value:
        return f"'{value}'"
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


def encode(text):
    return base64.b64encode(text.encode()).decode()


def join_last_lines(output, max_lines=3):
    """Return the last lines that are not empty."""
    lines = [line.strip() for line in ANSI_COLORS.sub("", output).splitlines() if line.strip()]
    return " ".join(lines[-max_lines:])[-MAX_MESSAGE_LENGTH:]


def redact(values, text):
    """Return the text without these values. Short ones stay: they are words like `admin` or `true`."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) > 5:
            text = text.replace(value, "•••")
    return text


def describe_failure(machine_id, result):
    return f"machine {machine_id}, exit code {result.exit_code}: {result.output.strip()[-2000:]}"
