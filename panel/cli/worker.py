"""`panel worker`: one worker process."""

import click

from panel.cli import start
from worker.engine.main import run_and_exit, run_worker


@click.command()
def command():
    """Carry out tasks until SIGTERM, then finish those in hand. Any number may run, on any machine."""
    run_and_exit(run_worker, start.load_config(), start.ensure_database_fits)
