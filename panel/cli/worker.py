"""`panel worker`: one worker process."""

import click

from panel.cli import start
from worker.engine.main import run_and_exit, run_worker


@click.command()
def command():
    """Run tasks until SIGTERM; running tasks are finished first. You can run any number of workers, on any machine."""
    run_and_exit(run_worker, start.load_config(), start.ensure_database_fits)
