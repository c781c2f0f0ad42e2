"""`python -m consoles PATH`: one console process, taking orders at that Unix socket."""

import sys

from consoles.process import run
from panel.config import load
from panel.logs import setup

if __name__ == "__main__":
    setup(load().json_logs)
    run(sys.argv[1])
