"""`panel console`: carries the screens and shells of this machine's web processes."""

import click

from consoles.server import run
from consoles.session_store import Records
from panel.cli import start
from worker.engine.main import prepare


@click.command()
def command():
    """Carry consoles until SIGTERM. One on each machine that serves the web, with the same data directory."""
    config = start.begin()
    run(config.console_socket, Records(start.check(prepare(config))))
