"""Runs `panel` commands in forks of one process that has imported them, because imports take most of their time."""

import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from setproctitle import setproctitle

from panel.cli import main
from tests.support.waiting import WAIT_TIMEOUT_SECONDS

DUMP_STACKS_AFTER_SECONDS = WAIT_TIMEOUT_SECONDS - 20
"""Age at which the stacks of a script's threads go to its log: a test that waits for it is about to fail."""

fork_server = multiprocessing.get_context("forkserver")
fork_server.set_forkserver_preload(["tests.support.imported_commands"])


class ForkedProcess:
    """A process that was forked by the fork server. Has what tests use of `subprocess.Popen`."""

    def __init__(self, function, *arguments):
        self.task = fork_server.Process(target=function, args=arguments)
        self.task.start()
        self.pid = self.task.pid

    @property
    def returncode(self):
        return self.task.exitcode

    def poll(self):
        return self.task.exitcode

    def wait(self, timeout=None):
        self.task.join(timeout)
        if self.task.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.task), timeout)
        return self.task.exitcode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


def run_command(arguments, environment):
    """Run a command to its end, with an empty standard input. Return a CompletedProcess with text."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        status = ForkedProcess(execute_command, arguments, environment, outputs).wait()
        return subprocess.CompletedProcess(arguments, status, *[output.read_text() for output in outputs])


def start_command(arguments, environment, log):
    """Start a command in the background. Its output is appended to the file `log`."""
    log.touch()
    return ForkedProcess(execute_command, arguments, environment, [log, log])


def start_script(source, arguments, environment, log):
    """Start Python code in the background. It is cheap where it imports what commands do."""
    log.touch()
    return ForkedProcess(execute_script, source, arguments, environment, log)


def execute_command(arguments, environment, outputs):
    """Execute a command in this process, and exit with its status."""
    replace_environment(environment, outputs)
    setproctitle(" ".join(["panel", *arguments]))
    main(arguments, prog_name="panel")


def execute_script(source, arguments, environment, log):
    replace_environment(environment, [log, log])
    sys.argv[1:] = arguments
    faulthandler.dump_traceback_later(DUMP_STACKS_AFTER_SECONDS)
    exec(compile(source, "script", "exec"), {"__name__": "__main__"})


def replace_environment(environment, outputs):
    """Set the environment variables of this process and send its output to files."""
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, output in enumerate(outputs, start=1):
        with output.open("a") as file:
            os.dup2(file.fileno(), descriptor)
