"""Keeps the parts of an installation running on one machine, as children of this process.

One thread does everything: it starts parts, passes their output on, starts anew what ended, and stops all in order. No
part outlives its supervisor: the kernel asks it to end when this process is gone, however that happened.
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
"""Seconds that a part waits at most while no other part does the same work."""

STABLE_AFTER_SECONDS = 10
"""Seconds after which a part counts as well started, so that its next end is not one of a series."""

SIGNAL_DEBOUNCE_SECONDS = 1
"""Seconds within which several signals count as one: `make` passes on what the terminal has sent to all."""

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class StepFailed(Exception):
    """A step without which the installation cannot run did not work."""


class ChildProcess:
    """One child process, in a process group of its own. One that `answers` has its standard output kept to be read.
    Parts with the same command are siblings: each does the other's work."""

    def __init__(self, name, *command, has_captured_output=False):
        self.name, self.command, self.answers = name, command, has_captured_output
        self.process = None
        self.started, self.failures, self.due = 0.0, 0, None

    def start(self):
        self.started, self.due = time.monotonic(), None
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if self.answers else subprocess.STDOUT,
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
        """The whole lines in what it has said; a line that was begun waits for its end."""
        *lines, self.partial_line = (self.partial_line + text).split(b"\n")
        return lines

    def end(self):
        if self.running:
            self.process.send_signal(signal.SIGTERM)

    def kill(self):
        """Ends the part and whatever it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def backoff(self, has_sibling):
        """Says in how many seconds to start again: none at first, then more each time it does not live long."""
        self.failures = self.failures + 1 if time.monotonic() - self.started < STABLE_AFTER_SECONDS else 1
        longest = MAX_RESTART_DELAY_SECONDS if has_sibling else MAX_RESTART_DELAY_WITHOUT_SIBLING_SECONDS
        pause = min(longest, 2 ** (self.failures - 2)) if self.failures > 1 else 0
        self.due = time.monotonic() + pause
        return pause


class Supervisor:
    """`asked` counts the signals to stop. From the first one on nothing is started and every wait returns; the second
    one ends what still runs by force."""

    def __init__(self, has_prefix=True):
        self.prefix = has_prefix
        self.kept: list[ChildProcess] = []
        self.outputs = selectors.DefaultSelector()
        self.asked, self.asked_at = 0, -SIGNAL_DEBOUNCE_SECONDS
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self.ask)

    def ask(self, *_):
        if time.monotonic() - self.asked_at >= SIGNAL_DEBOUNCE_SECONDS:
            self.asked, self.asked_at = self.asked + 1, time.monotonic()

    def keep(self, *parts):
        """Starts the parts; from now on one that ends is started again."""
        self.kept += parts
        self.turn(0)

    def once(self, part):
        """Runs the part to its end and returns what it answered."""
        self.start(part)
        self.until(lambda: not part.running)
        self.stop(part)
        if part.process.returncode and not self.asked:
            raise StepFailed(f"{part.name} failed: see above.")
        return part.process.stdout.read().decode()

    def until(self, is_reached):
        """Tends the parts until `reached()` or a signal."""
        while not self.asked and not is_reached():
            self.turn(0.2)

    def turn(self, seconds):
        self.forward_output(seconds)
        for part in self.kept:
            if not self.asked and not part.running:
                self.mend(part)

    def mend(self, part):
        if part.process and part.due is None:
            self.close(part)
            part.kill()  # what it started may still hold the port
            pause = part.backoff(self.has_running_sibling(part))
            log.warning("part_ended", part=part.name, code=part.process.returncode, again_in=pause)
        if part.due is None or time.monotonic() >= part.due:
            self.start(part)

    def has_running_sibling(self, part):
        return any(other.running for other in self.kept if other is not part and other.command == part.command)

    def stop(self, *parts):
        """Returns when these have ended. They may take the time they need, until a second signal."""
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
        """Passes on the last words of a part that has ended."""
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
