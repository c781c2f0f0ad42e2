"""A guest whose agent runs programs on this machine: /run/panel and /opt/panel-apps are somewhere else, and programs of
the test's own, which note what they were asked, take the place of Docker and of package managers."""

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
    """`silent` is how often the agent is not there; `deaf` says of each next call whether its answer gets lost. With
    `busybox` that is all there is, as on small systems."""

    def __init__(self, home, busybox=None):
        self.busybox = busybox
        self.home, self.calls, self.given = home, [], []
        self.silent, self.deaf = 0, []
        self.bin, self.asked = home / "bin", home / "asked"
        self.bin.mkdir()
        for place in ("/run/panel", "/opt/panel-apps", "/etc"):
            (home / place[1:]).mkdir(parents=True)
        for name in GUEST_PROGRAMS:
            self.link(name)

    def link(self, name):
        if self.busybox:
            return (self.bin / name).symlink_to(self.busybox)
        found = next((f"/{at}/{name}" for at in ("usr/bin", "bin") if os.path.exists(f"/{at}/{name}")), None)
        if found:
            (self.bin / name).symlink_to(found)

    def program(self, name, body="exit 0"):
        """A program of that name, which notes its words."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.asked}\n{body}\n')
        path.chmod(0o755)

    def file(self, path):
        return self.home / path[1:]

    def mode(self, path):
        return stat.S_IMODE(self.file(path).stat().st_mode)

    def said(self):
        return self.asked.read_text().splitlines() if self.asked.exists() else []

    def agent_run(self, machine_id, command, stdin="", deadline=30):
        if self.silent:
            self.silent -= 1
            raise AgentUnavailable("The guest agent does not answer.")
        self.calls.append(command)
        self.given.append(stdin.encode())
        command = [self.elsewhere(word) for word in command]
        env = {"PATH": str(self.bin)}
        done = subprocess.run(command, input=stdin.encode(), capture_output=True, env=env, cwd="/", timeout=120)
        if self.deaf and self.deaf.pop(0):
            raise AgentUnavailable("The answer was lost.")
        return CommandResult(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))

    def elsewhere(self, word):
        for place in GUEST_PATHS:
            word = word.replace(place, str(self.home / place[1:]))
        return word.replace("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin", str(self.bin))
