"""Making the Flask application of a process, its context and its database."""

from cryptography.fernet import Fernet, MultiFernet
from flask import Flask

from panel.core import (
    context,
    jobs,
    live_changes,  # noqa: F401  (notes changes of every session)
)
from panel.core.config import ROOT, Config
from panel.core.context import Context
from panel.core.db import db, init_db, make_fernet_keys
from panel.ratelimit import windows


def create_context(config: Config) -> Context:
    return Context(
        config,
        encryption=MultiFernet([Fernet(key) for key in make_fernet_keys(config.secret_key)]),
        redis=jobs.create_client(config.redis_url),
        rate_limits=windows.RateLimits(config.redis_url),
    )


def init_app(app: Flask, config: Config):
    """Connect an application to the installation, and make this process's context."""
    context.set_current(create_context(config))
    app.extensions["config"] = config
    init_db(app, config)


def create_worker_app(config: Config) -> Flask:
    """Return an application with only the database, for processes that serve no requests."""
    app = Flask("panel")
    init_app(app, config)
    return app


def init_migrate(app: Flask):
    """Set up flask_migrate. Only commands that change tables call this, because importing Alembic makes the start of a
    process about a tenth slower."""
    from flask_migrate import Migrate

    Migrate(app, db, directory=str(ROOT / "panel" / "migrations"), render_as_batch=True)
