"""A web process with consoles, started and stopped."""

import subprocess
import sys
from pathlib import Path

from tests.consoles import web


def start_web(listener, environment):
    number = listener.fileno()
    command = [sys.executable, "-m", "tests.consoles.web", str(number)]
    return subprocess.Popen(command, pass_fds=[number], env=environment, cwd=Path(web.__file__).parents[2])


def stop_process(process):
    process.terminate()
    assert process.wait(20) == 0
