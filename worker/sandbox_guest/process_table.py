"""Starting processes, finding them again, and reaping those that have exited."""

import asyncio
import contextlib
import fcntl
import os
import pty
import shlex
import signal
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from .connect_protocol import Message
from .errors import RpcError
from .log_entries import INFO, LogClient
from .processes import Process, describe_exit, set_terminal_size
from .users import User

ENDED_RETENTION_SECONDS = 60.0
"""How long a client can still learn how a process ended."""
OOM_SCORE = 100
"""Processes of the sandbox are killed before the daemon when the memory is full."""
TERMINAL_MODE = 0o620


@dataclass(frozen=True)
class ProcessSpec:
    """What a client wants to start."""

    config: Message
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    user: User
    tag: str | None = None
    has_stdin: bool = True
    terminal_size: tuple[int, int] | None = None


class ProcessTable:
    """The processes that clients started."""

    def __init__(self, log: LogClient) -> None:
        self.log = log
        self.running: dict[int, Process] = {}
        self.ended: dict[int, Process] = {}
        self.loop = asyncio.get_running_loop()
        self.loop.add_signal_handler(signal.SIGCHLD, self.reap)

    def start(self, spec: ProcessSpec) -> Process:
        """Start a process. Its output is read from the next turn of the event loop on.

        Runs in the event loop, so `reap` never meets a process that is not in the table yet.
        """
        try:
            popen, terminal = start_terminal(spec) if spec.terminal_size else start_with_pipes(spec)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise RpcError("invalid_argument", f"'{spec.arguments[0]}' cannot be started: {reason}") from error
        with contextlib.suppress(OSError), open(f"/proc/{popen.pid}/oom_score_adj", "w") as file:
            file.write(str(OOM_SCORE))
        process = Process(popen, spec.config, spec.tag, terminal)
        process.on_end = self.on_end
        self.ended.pop(process.pid, None)
        self.running[process.pid] = process
        self.log.log(INFO, "process", "Process started", **describe_for_log(process), user=spec.user.name)
        return process

    def reap(self) -> None:
        """Collect all children that have exited, also those that were left behind by others when this is process 1."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if process := self.running.get(pid):
                    process.on_exit(wait_status)

    def on_end(self, process: Process) -> None:
        """Move a process from the running to the ended ones."""
        if self.running.get(process.pid) is process:
            del self.running[process.pid]
        self.ended[process.pid] = process
        assert process.exit_status is not None
        end = describe_exit(process.exit_status)
        seconds = f"{self.loop.time() - process.started_at:.3f}"
        facts = {"exit_code": str(end["exitCode"]), "status": end["status"], "seconds": seconds}
        self.log.log(INFO, "process", "Process ended", **describe_for_log(process), **facts)
        self.loop.call_later(ENDED_RETENTION_SECONDS, self.forget, process)

    def forget(self, process: Process) -> None:
        if self.ended.get(process.pid) is process:
            del self.ended[process.pid]

    def find(self, selector: Message, *, with_ended: bool = False) -> Process | None:
        """Return the process that a selector names by pid or tag; of several with one tag the newest."""
        for processes in (self.running, self.ended) if with_ended else (self.running,):
            for process in reversed(processes.values()):
                if process.tag == selector["tag"] if "tag" in selector else process.pid == selector["pid"]:
                    return process
        return None

    def stop(self) -> None:
        """Kill all processes."""
        for process in self.running.values():
            process.send_signal(signal.SIGKILL)


def describe_for_log(process: Process) -> dict[str, str]:
    """Return what the log says of a process: never its environment or input."""
    command = shlex.join([process.config["cmd"], *process.config["args"]])
    return {"command": command, "pid": str(process.pid)}


def make_popen_options(spec: ProcessSpec) -> dict[str, object]:
    options: dict[str, object] = {
        "cwd": spec.folder,
        "env": spec.environment,
        "bufsize": 0,
        "start_new_session": True,
    }
    if os.geteuid() == 0:
        options |= {"user": spec.user.uid, "group": spec.user.gid, "extra_groups": spec.user.groups}
    elif os.geteuid() != spec.user.uid:
        raise RpcError("permission_denied", f"the daemon cannot act as user '{spec.user.name}'")
    return options


def start_with_pipes(spec: ProcessSpec) -> tuple[subprocess.Popen[bytes], None]:
    stdin = subprocess.PIPE if spec.has_stdin else subprocess.DEVNULL
    pipe = subprocess.PIPE
    popen = subprocess.Popen(spec.arguments, stdin=stdin, stdout=pipe, stderr=pipe, **make_popen_options(spec))  # type: ignore[call-overload]
    return popen, None


def start_terminal(spec: ProcessSpec) -> tuple[subprocess.Popen[bytes], BinaryIO]:
    """Start a process on a terminal of its own. Return it with the controlling side of the terminal."""
    assert spec.terminal_size
    with open_terminal() as (controller, terminal):
        set_terminal_size(terminal, *spec.terminal_size)
        if os.geteuid() == 0:
            os.fchown(terminal, spec.user.uid, -1)
            os.fchmod(terminal, TERMINAL_MODE)
        popen = subprocess.Popen(  # type: ignore[call-overload]
            spec.arguments,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            # The shell needs a controlling terminal for job control. Popen has no option for it, and this function
            # takes no locks, so it is safe after the fork.
            preexec_fn=make_terminal_controlling,
            **make_popen_options(spec),
        )
        return popen, os.fdopen(os.dup(controller), "r+b", buffering=0)


@contextlib.contextmanager
def open_terminal() -> Iterator[tuple[int, int]]:
    """Open a pair of descriptors of a new terminal and close them afterwards."""
    descriptors = pty.openpty()
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def make_terminal_controlling() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
