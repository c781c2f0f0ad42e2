"""A guest whose agent runs programs on this machine, with its paths mapped to a folder of the test.

Scripts that record their calls replace Docker and package managers.
"""

import os
import stat
import subprocess

from worker.nodes.base import AgentUnavailable, CommandResult

GUEST_PATHS = (
    "/run/panel",
    "/opt/panel-apps",
    "/etc/os-release",
    "/run/systemd/system",
    "/lib/modules",
    "/etc/yum.repos.d",
)
GUEST_PROGRAMS = [
    *(
        "sh",
        "base64",
        "cat",
        "cp",
        "date",
        "find",
        "grep",
        "head",
        "kill",
        "ln",
        "ls",
        "mkdir",
        "mktemp",
        "mv",
        "readlink",
    ),
    *("rm", "rmdir", "sed", "setsid", "sleep", "sort", "tail", "timeout", "touch", "tr", "uname"),
]


class FakeGuest:
    """The guest and its state: `unavailable_calls` is the number of next calls that the agent does not answer,
    `lost_answers` says of each next call whether its answer is lost, `busybox` is the program behind all commands."""

    def __init__(self, home, busybox=None):
        self.busybox = busybox
        self.home, self.calls, self.inputs = home, [], []
        self.unavailable_calls, self.lost_answers = 0, []
        self.bin, self.call_log = home / "bin", home / "calls"
        self.bin.mkdir()
        for place in ("/run/panel", "/opt/panel-apps", "/etc"):
            (home / place[1:]).mkdir(parents=True)
        for name in GUEST_PROGRAMS:
            self.link_program(name)

    def link_program(self, name):
        if self.busybox:
            return (self.bin / name).symlink_to(self.busybox)
        program = next((f"/{at}/{name}" for at in ("usr/bin", "bin") if os.path.exists(f"/{at}/{name}")), None)
        if program:
            (self.bin / name).symlink_to(program)

    def add_program(self, name, body="exit 0"):
        """Add a program of that name that records its calls."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.call_log}\n{body}\n')
        path.chmod(0o755)

    def host_path(self, path):
        return self.home / path[1:]

    def file_mode(self, path):
        return stat.S_IMODE(self.host_path(path).stat().st_mode)

    def read_calls(self):
        return self.call_log.read_text().splitlines() if self.call_log.exists() else []

    def agent_run(self, machine_id, command, stdin="", deadline=30):
        if self.unavailable_calls:
            self.unavailable_calls -= 1
            raise AgentUnavailable("The guest agent does not answer.")
        self.calls.append(command)
        self.inputs.append(stdin.encode())
        command = [self.map_paths(word) for word in command]
        env = {"PATH": str(self.bin)}
        done = subprocess.run(command, input=stdin.encode(), capture_output=True, env=env, cwd="/", timeout=120)
        if self.lost_answers and self.lost_answers.pop(0):
            raise AgentUnavailable("The answer was lost.")
        return CommandResult(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))

    def map_paths(self, text):
        for place in GUEST_PATHS:
            text = text.replace(place, str(self.home / place[1:]))
        return text.replace("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin", str(self.bin))
