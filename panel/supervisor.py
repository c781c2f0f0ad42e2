"""The supervisor of `panel up`: runs the parts of an installation as child processes.

One thread starts the processes, forwards their output, restarts those that exit, and stops all in order. The kernel
sends SIGTERM to the children when this process exits for any reason (PR_SET_PDEATHSIG).
"""

import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress

import structlog

log = structlog.get_logger()

MAX_RESTART_DELAY_SECONDS = 15
MAX_RESTART_DELAY_WITHOUT_SIBLING_SECONDS = 4
"""The longest delay of a restart while no sibling is running."""

STABLE_AFTER_SECONDS = 10
"""Run time after which a process counts as stable, so that its next exit resets the back-off."""

SIGNAL_DEBOUNCE_SECONDS = 1
"""Signals within this time count as one, because `make` repeats a signal that the terminal sent to all processes."""

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class StepFailed(Exception):
    """A preparation step of the installation failed."""


class ChildProcess:
    """One child process, in its own process group. With `has_captured_output` its standard output is kept for the
    caller. Processes with the same command are siblings: each can do the other's work."""

    def __init__(self, name, *command, has_captured_output=False):
        self.name, self.command, self.has_captured_output = name, command, has_captured_output
        self.process = None
        self.started, self.failures, self.due = 0.0, 0, None

    def start(self):
        self.started, self.due = time.monotonic(), None
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if self.has_captured_output else subprocess.STDOUT,
            bufsize=0,
            process_group=0,
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        self.output = self.process.stderr or self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self.partial_line = b""

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def lines(self, text):
        """Return the complete lines of the output so far. An incomplete last line is kept for the next call."""
        *lines, self.partial_line = (self.partial_line + text).split(b"\n")
        return lines

    def end(self):
        if self.running:
            self.process.send_signal(signal.SIGTERM)

    def kill(self):
        """Kill the process and its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def backoff(self, has_sibling):
        """Set and return the delay of the restart in seconds: 0 at first, then longer after each early exit."""
        self.failures = self.failures + 1 if time.monotonic() - self.started < STABLE_AFTER_SECONDS else 1
        maximum = MAX_RESTART_DELAY_SECONDS if has_sibling else MAX_RESTART_DELAY_WITHOUT_SIBLING_SECONDS
        delay = min(maximum, 2 ** (self.failures - 2)) if self.failures > 1 else 0
        self.due = time.monotonic() + delay
        return delay


class Supervisor:
    """Starts, restarts and stops child processes. `asked` counts the signals to stop: after the first, nothing is
    started and every wait returns; after the second, running processes are killed."""

    def __init__(self, has_prefix=True):
        self.prefix = has_prefix
        self.children: list[ChildProcess] = []
        self.outputs = selectors.DefaultSelector()
        self.asked, self.asked_at = 0, -SIGNAL_DEBOUNCE_SECONDS
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self.ask)

    def ask(self, *_):
        if time.monotonic() - self.asked_at >= SIGNAL_DEBOUNCE_SECONDS:
            self.asked, self.asked_at = self.asked + 1, time.monotonic()

    def keep(self, *parts):
        """Start the processes and restart those that exit."""
        self.children += parts
        self.turn(0)

    def once(self, part):
        """Run a process to its end and return its standard output. Raise StepFailed when it fails."""
        self.start(part)
        self.until(lambda: not part.running)
        self.stop(part)
        if part.process.returncode and not self.asked:
            raise StepFailed(f"{part.name} failed: see above.")
        return part.process.stdout.read().decode()

    def until(self, is_reached):
        """Supervise the processes until `is_reached()` or a signal."""
        while not self.asked and not is_reached():
            self.turn(0.2)

    def turn(self, seconds):
        """Forward output for up to `seconds`, and restart processes that have exited."""
        self.forward_output(seconds)
        for part in self.children:
            if not self.asked and not part.running:
                self.restart_if_due(part)

    def restart_if_due(self, part):
        if part.process and part.due is None:
            self.close(part)
            part.kill()  # its children may still use the port
            delay = part.backoff(self.has_running_sibling(part))
            log.warning("process_ended", part=part.name, code=part.process.returncode, again_in=delay)
        if part.due is None or time.monotonic() >= part.due:
            self.start(part)

    def has_running_sibling(self, part):
        return any(other.running for other in self.children if other is not part and other.command == part.command)

    def stop(self, *parts):
        """Stop these processes and wait for their end, without a time limit until a second signal."""
        for part in parts:
            part.end()
        while any(part.running for part in parts):
            self.forward_output(0.1)
            for part in parts:
                if self.asked > 1 and part.running:
                    part.kill()
        for part in parts:
            if part.process:
                self.close(part)

    def start(self, part):
        part.start()
        self.outputs.register(part.output, selectors.EVENT_READ, part)

    def close(self, part):
        """Forward the remaining output of a process that has exited."""
        if not part.output.closed:
            self.write_output(part, (part.output.read() or b"") + b"\n" * bool(part.partial_line))
            with suppress(KeyError):
                self.outputs.unregister(part.output)
            part.output.close()

    def forward_output(self, seconds):
        for key, _ in self.outputs.select(seconds):
            text = key.fileobj.read()
            if text:
                self.write_output(key.data, text)
            elif text is not None:
                self.outputs.unregister(key.fileobj)

    def write_output(self, part, text):
        for line in part.lines(text):
            name = f"{part.name:8} | " if self.prefix else ""
            sys.stdout.write(name + line.decode(errors="replace") + "\n")
        sys.stdout.flush()
