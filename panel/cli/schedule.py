"""`panel schedule`: what runs again and again."""

import click

from panel.config import load
from worker.process import run, schedule


@click.command()
def command():
    """Ring what is due and listen to nodes. Run two for safety: one leads, the other waits."""
    run(schedule, load())
