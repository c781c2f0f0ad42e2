"""Making the Flask application of a process: its configuration and database."""

from flask import Flask

from panel.core.config import ROOT, Config
from panel.core.db import db, init_db


def init_app(app: Flask, config: Config):
    """Connect an application to the installation."""
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
