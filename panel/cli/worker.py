"""`panel worker`: one worker process."""

import click

from panel.cli import start
from worker.engine.main import run, work


@click.command()
def command():
    """Carry out tasks until SIGTERM, then finish those in hand. Any number may run, on any machine."""
    run(work, start.begin(), start.check)
