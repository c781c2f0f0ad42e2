"""`panel console`: the console server, for the screens and shells of this machine's web processes."""

import click

from consoles.server import run
from consoles.session_store import SessionStore
from panel.cli import start
from worker.engine.main import prepare_app


@click.command()
def command():
    """Run the console server until SIGTERM. Run one on each web server, with the same data directory."""
    config = start.load_config()
    run(config.console_socket, SessionStore(start.ensure_database_fits(prepare_app(config))))
