"""`panel backup-key`: the keys with which backups of instances are read without the panel."""

import os
from pathlib import Path

import click

from panel.cli.context import app_context
from panel.core.db import session
from panel.core.errors import Problem
from panel.services import backup_repositories


@click.group()
def command():
    """Export the keys of the repositories with backups of instances."""


@command.command("list")
def listing():
    """List the repositories: id, account, destination and type of storage."""
    with app_context():
        for row in session.scalars(backup_repositories.select_all()).all():
            click.echo("  ".join((row.id, row.account.email, row.destination.name, row.destination.storage_type)))


@command.command()
@click.argument("repository")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def export(repository, file, yes):
    """Write the key of a REPOSITORY to a new FILE that only its owner may read.

    With it everybody who reaches the storage can read all backups of the account. The export is in the audit log.
    """
    with app_context():
        row = backup_repositories.get(repository)
        if not yes:
            question = f"Export the key of all backups of {row.account.email} in {row.destination.name}?"
            click.confirm(question, abort=True)
        ensure_new(file)
        backup_repositories.record_key_export(row, person="command line", person_kind="command_line", ip="local")
        session.commit()
        write_secret(file, row.key)
        click.echo(f"The key is in {file}. Keep it apart from the backups.")
        click.echo(f"The folder of the repository in the destination is {row.id}.")


def ensure_new(path):
    if path.exists():
        raise Problem(f"{path} exists already. Choose a new file.")


def write_secret(path, text):
    """Write a new file. Raise Problem when it exists."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Problem(f"{path} cannot be created: {error.strerror}.") from None
    with os.fdopen(handle, "w") as file:
        file.write(f"{text}\n")
