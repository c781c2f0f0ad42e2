"""`panel web`: pages, APIs and consoles."""

import click

from panel.app import MAX_BODY_BYTES, create_app
from panel.bootstrap import create_worker_app
from panel.cli import start
from panel.core import languages
from panel.core.database_probe import get_probe
from panel.core.db import db
from panel.core.logs import setup_logging
from panel.core.startup_checks import check_installation
from panel.server.connection_limits import ConnectionLimits
from panel.server.server import ParentProcess, StartFailed, open_listener, raise_file_limit, serve
from panel.web import request_metrics


def check_before_fork(config):
    """Check the installation once for all web processes. Its database connection is closed before they are forked."""
    app = create_worker_app(config)
    try:
        return check_installation(app)
    finally:
        with app.app_context():
            db.engine.dispose()


def run_worker(config, is_checked, listener, heartbeat):
    """Serve in one web process until it is stopped."""
    app = create_app(config)
    get_probe(app).start(is_checked=is_checked)
    limits = ConnectionLimits(config.web_head_seconds, config.web_incomplete_heads_per_address, config.proxies)
    serve(app, listener, threads=config.web_threads, body_max_bytes=MAX_BODY_BYTES, limits=limits, heartbeat=heartbeat)


@click.command()
def command():
    """Serve pages, APIs and consoles until SIGTERM. Running requests are finished first."""
    config = start.load_config()
    setup_logging(config.json_logs)
    raise_file_limit()
    is_checked = check_before_fork(config)
    try:
        listener = open_listener(config.bind)
        languages.preload_translations()
        with request_metrics.share_between_processes():
            ParentProcess(listener, config.web_workers, lambda *process: run_worker(config, is_checked, *process)).run()
    except OSError as error:
        raise click.ClickException(f"The web server cannot listen on {config.bind}: {error.strerror}.") from None
    except StartFailed as error:
        raise click.ClickException(str(error)) from None
