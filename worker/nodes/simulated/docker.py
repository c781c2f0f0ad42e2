"""Docker in the guests of a simulated node. Its state is files on the guest's first disk, so it is treated like
everything that a guest has written: a snapshot restores it, a new system removes it.

Nothing is downloaded. Pulling an image whose name begins with `missing` fails, and the containers of one that begins
with `crashing` exit at once.
"""

import base64
import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import yaml

from panel.core import clock
from worker.guest import background_job, docker, docker_detect
from worker.nodes.base import CommandResult
from worker.nodes.simulated import overlays

if TYPE_CHECKING:
    from worker.nodes.simulated.guests import Guest

DOCKER_PROGRAM_PATH = "/usr/bin/docker"
NO_PACKAGE_MANAGER = "/etc/no-package-manager"
"""A guest with this file has no package manager."""
PROJECTS_FOLDER = "/var/lib/docker/projects"


class Docker:
    """The Docker engine of a guest, installed or not, and its apps."""

    def __init__(self, guest: "Guest") -> None:
        self.guest = guest
        self.disk = guest.live["disks"][0]

    def read(self, path: str) -> str:
        """Return the text of a file; "" if it does not exist."""
        return overlays.read_files(self.guest.state, self.disk).get(path, "")

    def write(self, path: str, text: str) -> None:
        overlays.write_file(self.guest.state, self.disk, path, text)

    @property
    def installed(self) -> bool:
        return bool(self.read(DOCKER_PROGRAM_PATH))

    def install(self) -> None:
        self.write(DOCKER_PROGRAM_PATH, "simulated\n")

    def uninstall(self) -> None:
        self.write(DOCKER_PROGRAM_PATH, "")

    def project(self, name: str) -> dict[str, Any] | None:
        """Return an app's `compose`, `environment`, `images` by service, whether it `runs`, and its `logs`; None
        without the app."""
        content = self.read(f"{PROJECTS_FOLDER}/{name}")
        return json.loads(content) if content else None

    def store_project(self, name: str, project: dict[str, Any] | None) -> None:
        self.write(f"{PROJECTS_FOLDER}/{name}", json.dumps(project) if project else "")

    def up(self, name: str, compose: str, environment: dict[str, str]) -> CommandResult:
        images = {
            service: str(definition.get("image")) for service, definition in yaml.safe_load(compose)["services"].items()
        }
        for image in images.values():
            if image.startswith("missing"):
                return CommandResult(1, f"Error response from daemon: pull access denied for {image}\n")
        lines = [f"{format_timestamp()} {service} started from {image}" for service, image in images.items()]
        facts = {"compose": compose, "environment": environment, "images": images}
        self.store_project(name, {**facts, "runs": True, "logs": lines})
        return CommandResult(0, "")

    def control(self, name: str, action: str) -> CommandResult:
        project = self.project(name)
        if project is None:
            return CommandResult(1, "The files of this app are not in the machine any more. Deploy it again.\n")
        project["runs"] = action != "stop"
        project["logs"] += [f"{format_timestamp()} {service} told to {action}" for service in project["images"]]
        self.store_project(name, project)
        return CommandResult(0, "")

    def containers(self, name: str) -> Iterator[str]:
        """Yield the app's lines of `docker inspect`, in the format of the panel's script."""
        project = self.project(name)
        if project is None:
            return
        for service, image in project["images"].items():
            crashed = image.startswith("crashing")
            state = "exited" if crashed or not project["runs"] else "running"
            yield f"{service}|{state}|{int(crashed)}|false|0|{format_timestamp()}|"

    def report_status(self, projects: list[str]) -> CommandResult:
        lines = [format_timestamp()] if self.installed else [format_timestamp(), "away"]
        for name in projects if self.installed else ():
            project = self.project(name)
            lines += [f"project {name} {'' if project is None or project['runs'] else 'stopped'}"]
            lines += self.containers(name)
        return CommandResult(0, "\n".join(lines))

    def logs(self, name: str) -> CommandResult:
        entries = (line.split(" ", 2) for line in (self.project(name) or {"logs": ()})["logs"])
        return CommandResult(0, "".join(f"{service} {time} {text}\n" for time, service, text in entries))


def format_timestamp() -> str:
    return f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"


def run_script(guest: "Guest", script: str, arguments: list[str], stdin: str) -> CommandResult | None:
    """Return the result of one of the panel's scripts, or None for any other script."""
    engine, lines = Docker(guest), stdin.splitlines()
    match script, arguments:
        case background_job.PREPARE_SCRIPT, [_, name, number]:
            engine.write(f"{make_job_path(guest, name)}/piece-{number}", stdin)
            return CommandResult(0, "")
        case background_job.START_SCRIPT, [_, name, program, _]:
            return start_job(engine, name, program, read_job_input(engine, name, stdin))
        case background_job.POLL_SCRIPT, [_, name, _]:
            return CommandResult(0, engine.read(make_job_path(guest, name)) or "gone\n")
        case background_job.STOP_SCRIPT, _:
            return CommandResult(0, "")
        case docker.STATUS_SCRIPT, _:
            return engine.report_status(lines)
        case docker.LOGS_SCRIPT, _:
            return engine.logs(lines[0])
        case docker_detect.SUPPORT_SCRIPT, _:
            return CommandResult(docker_detect.UNSUPPORTED_EXIT_CODE if engine.read(NO_PACKAGE_MANAGER) else 0, "")
        case docker_detect.DETECT_SCRIPT, _:
            return CommandResult(0 if engine.installed else 1, "")
    return None


def read_job_input(engine: Docker, name: str, last_chunk: str) -> list[str]:
    """Return all lines of the input: the chunks that were written earlier, and the last one."""
    prefix = f"{make_job_path(engine.guest, name)}/piece-"
    files = overlays.read_files(engine.guest.state, engine.disk)
    return ("".join(files[path] for path in sorted(files) if path.startswith(prefix)) + last_chunk).splitlines()


def make_job_path(guest: "Guest", name: str) -> str:
    """Return the file with a background job's result. Each boot has files of its own."""
    return f"/run/panel/{guest.row['boots']}/{name}"


def start_job(engine: Docker, name: str, program: str, lines: list[str]) -> CommandResult:
    """Run a background job to its end at once. Under the same name it does not run again."""
    if not engine.read(make_job_path(engine.guest, name)):
        result = install(engine) if program == docker.INSTALL_SCRIPT else compose(engine, *lines)
        engine.write(make_job_path(engine.guest, name), f"ended {result.exit_code}\n{result.output}")
    return CommandResult(0, "")


def install(engine: Docker) -> CommandResult:
    engine.install()
    return CommandResult(0, "")


def compose(engine: Docker, action: str, project: str, *arguments: str) -> CommandResult:
    if action == "remove":
        engine.store_project(project, None)
        return CommandResult(0, "")
    if not engine.installed:
        return CommandResult(1, "Docker Compose is not installed in this machine.\n")
    if action != "up":
        return engine.control(project, action)
    file, assignments = (base64.b64decode(argument).decode() for argument in arguments)
    return engine.up(project, file, dict(assignment.split("=", 1) for assignment in shlex.split(assignments)))
