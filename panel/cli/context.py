"""Contexts in which commands work on the installation."""

from contextlib import contextmanager
from pathlib import Path

import click
from sqlalchemy.exc import OperationalError, ProgrammingError

from panel.cli import start
from panel.core import context
from panel.core.db import session
from panel.services import audit
from worker.engine.main import prepare_app


@contextmanager
def app_context():
    """Push an application context with database and nodes and yield the configuration. Commit when the block ends
    without an error."""
    config = start.load_config()
    with prepare_app(config).app_context():
        if config.embedded_redis and not Path(config.redis_url.removeprefix("unix://")).exists():
            context.current().can_notify = False  # `panel up` is not running; its reaper finds the rows later
        try:
            yield config
            session.commit()
        except (OperationalError, ProgrammingError) as error:
            hint = "Check that the database is running and that `panel db upgrade` was run. See `panel doctor`."
            raise click.ClickException(f"{error.orig}\n{hint}") from None


@contextmanager
def audited_context():
    """Do the same and write an audit entry, for commands that change accounts and tokens."""
    with app_context() as config:
        audit.start_tracking()
        yield config
        action = click.get_current_context().command_path.replace(" ", ".").replace("-", "_")
        audit.write(person="command line", person_kind="command_line", ip="local", action=action)
