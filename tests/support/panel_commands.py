"""Runs `panel` commands in forks of one process that has imported them, because imports take most of their time."""

import multiprocessing
import os
import subprocess
import tempfile
from pathlib import Path

from panel.cli import main

fork_server = multiprocessing.get_context("forkserver")
fork_server.set_forkserver_preload(["tests.support.imported_commands"])


def run_command(arguments, environment):
    """Run a command to its end, with an empty standard input. Return a CompletedProcess with text."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        process = fork_server.Process(target=execute_command, args=(arguments, environment, outputs))
        process.start()
        process.join()
        return subprocess.CompletedProcess(arguments, process.exitcode, *[output.read_text() for output in outputs])


def execute_command(arguments, environment, outputs):
    """Execute a command in this process, and exit with its status."""
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, output in enumerate(outputs, start=1):
        with output.open("w") as file:
            os.dup2(file.fileno(), descriptor)
    main(arguments, prog_name="panel")
