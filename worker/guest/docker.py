"""Docker in a guest, through its agent: the engine, and apps that Compose runs.

An app's files lie in /opt/panel-apps/<project>, so that its owner can go on with them by hand. What takes long is a
detached program (`worker.guest.background_job`). Sentences in refusals are for the customer; what Compose said is in them,
without the values of secrets.
"""

import base64
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from worker.guest import background_job
from worker.nodes.base import Node, Refused

SCRIPTS = Path(__file__).parent / "docker_scripts"
INSTALL, COMPOSE, LOOK, LOGS = ((SCRIPTS / f"{name}.sh").read_text() for name in ("install", "compose", "look", "logs"))

REFUSED = 64
"""What a script ends with that has said why, in a sentence."""
PROJECT = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
LOG_BYTES = 256 * 1024
SOON = timedelta(minutes=1)
BY_A_SIGNAL = (0, 130, 137, 143)
"""How containers end that were told to."""
COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
LINE = re.compile(r"(?P<service>\S+) (?P<time>\d{4}-\d\d-\d\dT\S+) ?(?P<text>.*)")
"""Of a container's log. One that was cut is none."""
SOME_WORDS = 500


class Condition(NamedTuple):
    """How an app does: `running`, `stopped`, `error` (something in it ended badly, ends again and again, or is
    unhealthy) or `missing`, and a sentence about it."""

    status: str
    sentence: str


def quietly():
    """Nobody can call it off."""


def install(node: Node, machine_id: str, name: str, check: Callable[[], None] = quietly) -> None:
    """After success Docker runs in the guest, also after its next start, and Compose is there. It may be called again.
    `name` is of the detached program, and `check` is called while it runs. Raises `Refused` with what to do, and what
    `detached.run` raises."""
    done = background_job.run(node, machine_id, name, INSTALL, check=check)
    if done.exit_code:
        said = words(done.output, 1)
        sentence = said.removeprefix("refused: ") if done.exit_code == REFUSED else f"Docker was not installed: {said}"
        raise Refused(sentence, detail(machine_id, done))


def up(
    node: Node,
    machine_id: str,
    name: str,
    project: str,
    compose: str,
    environment: dict[str, str],
    check: Callable[[], None] = quietly,
) -> None:
    """After success the app of this compose file runs, with its images fetched. It may be called again, also with
    another file. Raises as `install`; then what Compose has made so far stays for the next time."""
    given = [encoded(compose), encoded(assignments(environment))]
    carry(node, machine_id, name, "up", project, given, check, environment, "The app could not be started")


def control(
    node: Node, machine_id: str, project: str, action: str, *, name: str = "", check: Callable[[], None] = quietly
) -> None:
    """Starts, stops or restarts (`action`) the app's containers. Raises as `install`."""
    assert action in ("start", "stop", "restart"), action
    carry(node, machine_id, name, action, project, [], check, {}, f"The app could not be told to {action}")


def remove(node: Node, machine_id: str, project: str, *, name: str = "", check: Callable[[], None] = quietly) -> None:
    """Stops and removes the app's containers and networks, and our files. Its volumes stay, and files that the customer
    put beside ours. What is gone already is as good. Raises as `install`."""
    carry(node, machine_id, name, "remove", project, [], check, {}, "The app could not be removed")


def carry(node, machine_id, name, action, project, given, check, environment, failed):
    assert PROJECT.fullmatch(project), project
    name = name or f"{project}-{action}-{secrets.token_hex(4)}"
    stdin = "".join(f"{line}\n" for line in (action, project, *given))
    done = background_job.run(node, machine_id, name, COMPOSE, stdin, check=check)
    if done.exit_code:
        said = without(environment.values(), words(done.output))
        raise Refused(f"{failed}. {said}" if said else f"{failed}.", f"machine {machine_id}, {project}: {said}")


def status(node: Node, machine_id: str, project: str) -> Condition:
    """How the app does. Raises as `statuses`."""
    return statuses(node, machine_id, [project])[project]


def statuses(node: Node, machine_id: str, projects: Iterable[str]) -> dict[str, Condition]:
    """How each of the apps does, by one call. Raises `AgentSilent` when the guest does not answer, and `Refused`."""
    projects = list(projects)
    assert all(PROJECT.fullmatch(project) for project in projects), projects
    done = node.agent_run(machine_id, ["sh", "-c", LOOK], stdin="".join(f"{each}\n" for each in projects), deadline=90)
    if done.exit_code:
        raise Refused("Docker in the machine did not say how the apps do.", detail(machine_id, done))
    now, *lines = done.output.splitlines() or [""]
    if lines == ["away"]:
        away = Condition("error", "Docker does not answer in the machine: it is not installed or does not run.")
        return dict.fromkeys(projects, away)
    found = {project: [] for project in projects}
    stopped, seen = set(), None
    for line in lines:
        if line.startswith("project "):
            _, seen, *mark = line.split()
            stopped |= {seen} if mark else set()
        elif seen in found and line.count("|") == 6:
            found[seen].append(line.split("|"))
    return {each: judged(containers, each in stopped, moment(now)) for each, containers in found.items()}


def judged(containers, stopped, now):
    """The condition of an app with these containers; `stopped` says that we were the last to stop it."""
    if not containers:
        return Condition("missing", "The app has no containers in the machine.")
    running = [each for each in containers if each[1] in ("running", "restarting")]
    if not running and (stopped or all(ended_well(each) for each in containers)):
        return Condition("stopped", "The app is stopped.")
    troubles = [trouble for each in containers if (trouble := what_ails(each, now))]
    if troubles:
        return Condition("error", " ".join(troubles))
    return Condition("running", f"{len(running)} {'container runs' if len(running) == 1 else 'containers run'}.")


def ended_well(container):
    _, state, code, out_of_memory, *_ = container
    return state in ("created", "paused") or (
        state == "exited" and int(code) in BY_A_SIGNAL and out_of_memory == "false"
    )


def what_ails(container, now):
    """A sentence, if the container is not as it should be while others of its app run."""
    service, state, code, out_of_memory, restarts, started, health = container
    what = f"The container of {service}"
    if out_of_memory == "true" and state != "running":
        return f"{what} had not enough memory."
    if state == "restarting" or (state == "running" and int(restarts) > 2 and now - moment(started) < SOON):
        return f"{what} ends and is started again and again (exit code {code})."
    if state == "running":
        return f"{what} is unhealthy." if health == "unhealthy" else None
    if state == "exited":
        return None if code == "0" else f"{what} ended with exit code {code}."
    return {"created": f"{what} was not started.", "paused": f"{what} is paused."}.get(state, f"{what} is {state}.")


def logs(node: Node, machine_id: str, project: str, lines: int = 500) -> str:
    """The newest lines of all the app's containers, at most 256 KiB, oldest first, each with its time and service.
    Raises `AgentSilent` when the guest does not answer, `Refused` when Docker does not."""
    assert PROJECT.fullmatch(project), project
    stdin = f"{project}\n{int(lines)}\n{LOG_BYTES}\n"
    done = node.agent_run(machine_id, ["sh", "-c", LOGS], stdin=stdin, deadline=90)
    if done.exit_code:
        raise Refused("Docker in the machine did not show the logs.", detail(machine_id, done))
    found = [LINE.match(line) for line in COLOURS.sub("", done.output).splitlines()]
    text = "\n".join(f"{line['time']} {line['service']} | {line['text']}" for line in found if line)
    return text.encode()[-LOG_BYTES:].decode(errors="ignore")


def moment(text):
    """Docker's times have nanoseconds."""
    return datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00"))


def assignments(environment):
    """A file of variables that a shell and every version of Compose read in the same way. Values with both a quote and
    a character that is special in double quotes are exact for the shell, from which Compose then has them."""
    return "".join(f"{name}={quoted(value)}\n" for name, value in environment.items())


def quoted(value):
    if "'" not in value:
        return f"'{value}'"
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def words(output, most=3):
    """The last lines that say something."""
    lines = [line.strip() for line in COLOURS.sub("", output).splitlines() if line.strip()]
    return " ".join(lines[-most:])[-SOME_WORDS:]


def without(values, text):
    """The text without these values. Short ones are words like `admin` or `true`."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) > 5:
            text = text.replace(value, "•••")
    return text


def detail(machine_id, done):
    return f"machine {machine_id}, exit code {done.exit_code}: {done.output.strip()[-2000:]}"
