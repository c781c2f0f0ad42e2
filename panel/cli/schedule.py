"""`panel schedule`: the scheduler of periodic jobs and node watchers."""

import click

from panel.cli import start
from worker.engine.main import run_and_exit, run_scheduler


@click.command()
def command():
    """Ring what is due and listen to nodes. Run two for safety: one leads, the other waits."""
    run_and_exit(run_scheduler, start.load_config(), start.ensure_database_fits)
