"""`panel console`: the console server, for screens, shells and live pages of this machine's web processes."""

import click

from consoles.live_updates import LiveUpdates
from consoles.server import run
from consoles.session_store import SessionStore
from panel.cli import start
from worker.engine.main import prepare_app


@click.command()
def command():
    """Run the console server until SIGTERM. Run one on each web server, with the same data directory. It also sends
    changes to open pages."""
    config = start.load_config()
    app = start.ensure_database_fits(prepare_app(config))
    run(config.console_socket, SessionStore(app), LiveUpdates(app, config.redis_url))
