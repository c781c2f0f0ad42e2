"""The installation that a command works on."""

from contextlib import contextmanager

import click
from sqlalchemy.exc import OperationalError, ProgrammingError

from panel.config import load
from panel.db import session
from worker.process import prepare


@contextmanager
def opened():
    """Its database and nodes, as `panel web` and `panel worker` see them. What the block changed is kept when it ends
    without an error."""
    config = load()
    with prepare(config).app_context():
        try:
            yield config
            session.commit()
        except (OperationalError, ProgrammingError) as error:
            hint = "Is the database up, and was `panel db upgrade` run? `panel doctor` tells."
            raise click.ClickException(f"{error.orig}\n{hint}") from None
