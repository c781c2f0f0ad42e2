"""`panel schedule`: the scheduler of periodic jobs and node watchers."""

import click

from panel.cli import start
from worker.engine.main import run_and_exit, run_scheduler


@click.command()
def command():
    """Run periodic jobs and watch the hypervisors until SIGTERM. Of two, one is active and the other stands by."""
    run_and_exit(run_scheduler, start.load_config(), start.ensure_database_fits)
