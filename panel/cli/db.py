"""`panel db`: brings the tables to what this version of the product needs, and back."""

import click
import flask_migrate

import panel.models  # noqa: F401  (Alembic compares with every table)
from panel.config import load
from panel.db import allow_migrations, bare_app
from panel.logs import setup


@click.group()
@click.pass_context
def command(ctx):
    """Upgrade, downgrade and check the database."""
    config = load()
    config.data_dir.mkdir(parents=True, exist_ok=True)
    setup(config.json_logs)
    app = bare_app(config)
    allow_migrations(app)
    ctx.with_resource(app.app_context())


@command.command()
@click.argument("revision", default="head")
def upgrade(revision):
    """Bring the tables up to this version. Without effect when they are."""
    flask_migrate.upgrade(revision=revision)
    click.echo("The tables are up to date.", err=True)


@command.command()
@click.argument("revision", default="-1")
def downgrade(revision):
    """Take the last migration back, or those after REVISION (`base` is before the first)."""
    flask_migrate.downgrade(revision=revision)


@command.command()
def check():
    """Say whether the models and the migrations agree."""
    flask_migrate.check()


@command.command()
@click.argument("message")
def migrate(message):
    """Write a migration for what the models say beyond the tables. The database must be up to date."""
    flask_migrate.migrate(message=message)
