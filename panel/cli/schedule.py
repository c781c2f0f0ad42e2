"""`panel schedule`: what runs again and again."""

import click

from panel.cli import start
from worker.engine.main import run, schedule


@click.command()
def command():
    """Ring what is due and listen to nodes. Run two for safety: one leads, the other waits."""
    run(schedule, start.begin(), start.check)
