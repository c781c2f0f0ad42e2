"""`python -m consoles PATH`: one console server that takes commands at that Unix socket."""

import sys

from consoles.server import run
from panel.core.config import load
from panel.core.logs import setup_logging

if __name__ == "__main__":
    setup_logging(load().json_logs)
    run(sys.argv[1])
