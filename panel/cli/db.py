"""`panel db`: the database's migrations."""

import click
import flask_migrate
from flask import current_app

import panel.models  # noqa: F401  (Alembic compares with every table)
from panel.bootstrap import create_worker_app, init_migrate
from panel.cli import start
from panel.core import schema_revision, startup_checks
from panel.core.data_files import temporary_umask
from panel.core.db import session
from panel.core.logs import setup_logging


@click.group()
@click.pass_context
def command(ctx):
    """Upgrade, downgrade and check the database."""
    config = start.load_config()
    setup_logging(config.json_logs)
    app = create_worker_app(config)
    init_migrate(app)
    ctx.with_resource(app.app_context())
    check_known_revision()


def check_known_revision():
    """Raise ConfigError with a remedy for a database of another version. Alembic would only name the revision."""
    schema_revision.check_known(session.connection())
    session.rollback()


def upgrade_tables(revision="head"):
    """Upgrade the tables, and record which secret key encrypts their values."""
    flask_migrate.upgrade(revision=revision)
    startup_checks.record_installation(current_app)


@command.command()
@click.argument("revision", default="head")
def upgrade(revision):
    """Upgrade the tables to this version. Does nothing if they are up to date."""
    upgrade_tables(revision)
    click.echo("The tables are up to date.", err=True)


@command.command()
@click.argument("revision", default="-1")
def downgrade(revision):
    """Revert the last migration, or all after REVISION (`base` reverts all)."""
    flask_migrate.downgrade(revision=revision)


@command.command()
def check():
    """Check that the migrations match the models."""
    flask_migrate.check()


@command.command()
@click.argument("message")
def migrate(message):
    """Generate a migration for changes in the models. The database must be up to date."""
    with temporary_umask(0o022):  # a file of the checkout
        flask_migrate.migrate(message=message)
