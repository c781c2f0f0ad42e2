"""`panel sandbox`: the router, which carries requests of clients to programs in sandboxes."""

import click

from panel.cli import start
from panel.core.config import ConfigError
from worker.engine.main import prepare_app, run_and_exit
from worker.sandbox_router.main import run_router


@click.command()
def command():
    """Carry requests to sandboxes until SIGTERM. Run one for all machines; it needs PANEL_SANDBOX_BIND."""
    config = start.load_config()
    if not config.sandbox_bind:
        raise ConfigError("Set PANEL_SANDBOX_BIND, like 127.0.0.1:8002.")
    run_and_exit(run_router, config, start.ensure_database_fits(prepare_app(config)))
