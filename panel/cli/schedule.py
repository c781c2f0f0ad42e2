"""`panel schedule`: what runs again and again."""

import click

from panel.config import load
from worker import process


@click.command()
def command():
    """Ring what is due and listen to nodes. Run two for safety: one leads, the other waits."""
    process.schedule(load())
