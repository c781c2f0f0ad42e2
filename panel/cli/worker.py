"""`panel worker`: one worker process."""

import click

from panel.cli import start
from worker.engine.main import run_and_exit, run_worker


@click.command()
@click.option("--name", hidden=True, help="A name that no worker has had before.")
@click.option("--replaces", multiple=True, hidden=True, help="The name of a worker whose process has ended.")
def command(name, replaces):
    """Run tasks until SIGTERM; running tasks are finished first. You can run any number of workers, on any machine."""
    run_and_exit(run_worker, start.load_config(), start.ensure_database_fits, name, replaces)
