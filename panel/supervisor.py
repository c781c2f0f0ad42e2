"""The supervisor of `panel up`: runs the processes of an installation as its children.

One thread starts the processes, forwards their output, restarts those that exit, and stops all in order. The kernel
sends SIGTERM to the children when this process exits for any reason (PR_SET_PDEATHSIG).
"""

import ctypes
import multiprocessing
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress

import structlog
from setproctitle import setproctitle

log = structlog.get_logger()

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

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


class ForkedFunction:
    """A function that runs in a fork of this process and thereby needs no imports of its own.

    It has what the supervisor uses of `subprocess.Popen`. `title` is what `ps` shows as its command.
    """

    def __init__(self, function, arguments, title, has_captured_output):
        self.stdout, stdout = open_pipe()
        self.stderr, stderr = open_pipe() if has_captured_output else (None, stdout)
        task = multiprocessing.get_context("fork").Process(
            target=run_forked, args=(function, arguments, title, stdout, stderr)
        )
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until the fork has handlers of its own
        try:
            task.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            for descriptor in {stdout, stderr}:
                os.close(descriptor)
        self.task, self.pid = task, task.pid

    @property
    def returncode(self):
        return self.task.exitcode

    def poll(self):
        return self.task.exitcode

    def wait(self):
        self.task.join()
        return self.task.exitcode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)


def open_pipe():
    """Return the reading end of a pipe as a file, and the descriptor of its writing end."""
    reading, writing = os.pipe()
    return open(reading, "rb", buffering=0), writing


def run_forked(function, arguments, title, stdout, stderr):
    """Make the fork a process like one of a command, and call the function."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.setpgid(0, 0)
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    with open(os.devnull) as nothing:
        for target, source in enumerate((nothing.fileno(), stdout, stderr)):
            os.dup2(source, target)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # the supervisor's own: pipes, its lock
    setproctitle(title)
    function(*arguments)


class ChildProcess:
    """One child process, in its own process group. With `has_captured_output` its standard output is kept for the
    caller. `make_arguments` returns more arguments for each start; the process before has ended by then. Processes with
    the same command are siblings: each can do the other's work."""

    def __init__(self, name, *command, has_captured_output=False, make_arguments=lambda: ()):
        self.name, self.command, self.has_captured_output = name, command, has_captured_output
        self.make_arguments = make_arguments
        self.process = None
        self.started_at, self.failure_count, self.restart_at = 0.0, 0, None

    def launch(self):
        """Start the process and return it."""
        return subprocess.Popen(
            [*self.command, *self.make_arguments()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if self.has_captured_output else subprocess.STDOUT,
            bufsize=0,
            process_group=0,
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )

    def start(self):
        self.started_at, self.restart_at = time.monotonic(), None
        self.process = self.launch()
        self.output = self.process.stderr or self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self.partial_line = b""

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def split_lines(self, text):
        """Return the complete lines of the output so far. An incomplete last line is kept for the next call."""
        *lines, self.partial_line = (self.partial_line + text).split(b"\n")
        return lines

    def terminate(self):
        if self.is_running:
            self.process.send_signal(signal.SIGTERM)

    def kill(self):
        """Kill the process and its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def schedule_restart(self, has_sibling):
        """Set and return the delay of the restart in seconds: 0 at first, then longer after each early exit."""
        self.failure_count = self.failure_count + 1 if time.monotonic() - self.started_at < STABLE_AFTER_SECONDS else 1
        maximum = MAX_RESTART_DELAY_SECONDS if has_sibling else MAX_RESTART_DELAY_WITHOUT_SIBLING_SECONDS
        delay = min(maximum, 2 ** (self.failure_count - 2)) if self.failure_count > 1 else 0
        self.restart_at = time.monotonic() + delay
        return delay


class ForkedChildProcess(ChildProcess):
    """A child process that calls `function` with the arguments of its command, as a list."""

    def __init__(self, name, function, *command, **options):
        super().__init__(name, *command, **options)
        self.function = function

    def launch(self):
        arguments = [*self.command, *self.make_arguments()]
        title = " ".join(["panel", *arguments])
        return ForkedFunction(self.function, (arguments,), title, self.has_captured_output)


class Supervisor:
    """Starts, restarts and stops child processes. `stop_signals` counts the signals to stop: after the first, nothing
    is started and every wait returns; after the second, running processes are killed."""

    def __init__(self, has_prefix=True):
        self.has_prefix = has_prefix
        self.children: list[ChildProcess] = []
        self.outputs = selectors.DefaultSelector()
        self.stop_signals, self.last_signal_at = 0, -SIGNAL_DEBOUNCE_SECONDS
        for number in STOP_SIGNALS:
            signal.signal(number, self.on_signal)

    def on_signal(self, *_):
        if time.monotonic() - self.last_signal_at >= SIGNAL_DEBOUNCE_SECONDS:
            self.stop_signals, self.last_signal_at = self.stop_signals + 1, time.monotonic()

    def supervise(self, *children):
        """Start the processes and restart those that exit."""
        self.children += children
        self.run_once(0)

    def run_to_end(self, child):
        """Run a process to its end and return its standard output. Raise StepFailed when it fails."""
        self.start(child)
        self.wait_until(lambda: not child.is_running)
        self.stop(child)
        if child.process.returncode and not self.stop_signals:
            raise StepFailed(f"{child.name} failed: see above.")
        return child.process.stdout.read().decode()

    def wait_until(self, is_reached):
        """Supervise the processes until `is_reached()` or a signal."""
        while not self.stop_signals and not is_reached():
            self.run_once(0.2)

    def run_once(self, timeout_seconds):
        """Forward output for up to `timeout_seconds`, and restart processes that have exited."""
        self.forward_output(timeout_seconds)
        for child in self.children:
            if not self.stop_signals and not child.is_running:
                self.restart_if_due(child)

    def restart_if_due(self, child):
        if child.process and child.restart_at is None:
            self.close_output(child)
            child.kill()  # its children may still use the port
            delay = child.schedule_restart(self.has_running_sibling(child))
            log.warning(
                "process_ended", process=child.name, exit_code=child.process.returncode, restart_in_seconds=delay
            )
        if child.restart_at is None or time.monotonic() >= child.restart_at:
            self.start(child)

    def has_running_sibling(self, child):
        return any(other.is_running for other in self.children if other is not child and other.command == child.command)

    def stop(self, *children):
        """Stop these processes and wait for their end, without a time limit until a second signal."""
        for child in children:
            child.terminate()
        while any(child.is_running for child in children):
            self.forward_output(0.1)
            for child in children:
                if self.stop_signals > 1 and child.is_running:
                    child.kill()
        for child in children:
            if child.process:
                self.close_output(child)

    def start(self, child):
        child.start()
        self.outputs.register(child.output, selectors.EVENT_READ, child)

    def close_output(self, child):
        """Forward the remaining output of a process that has exited."""
        if not child.output.closed:
            self.write_output(child, (child.output.read() or b"") + b"\n" * bool(child.partial_line))
            with suppress(KeyError):
                self.outputs.unregister(child.output)
            child.output.close()

    def forward_output(self, timeout_seconds):
        for key, _ in self.outputs.select(timeout_seconds):
            text = key.fileobj.read()
            if text:
                self.write_output(key.data, text)
            elif text is not None:
                self.outputs.unregister(key.fileobj)

    def write_output(self, child, text):
        for line in child.split_lines(text):
            name = f"{child.name:8} | " if self.has_prefix else ""
            sys.stdout.write(name + line.decode(errors="replace") + "\n")
        sys.stdout.flush()
