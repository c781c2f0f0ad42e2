"""`panel backup`: create, verify and restore encrypted backups."""

from contextlib import contextmanager
from pathlib import Path

import click

from panel.backups import create as backup_creation
from panel.backups import restore as backup_restore
from panel.backups.archive import MIN_PASSPHRASE_LENGTH
from panel.bootstrap import create_worker_app
from panel.cli import start
from panel.cli.up import lock_single_instance
from panel.core.config import Config, read_environment
from panel.core.data_files import protect
from panel.core.db import session
from panel.core.errors import Problem
from panel.core.logs import setup_logging
from panel.core.startup_checks import check_installation

passphrase_file = click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="File with the passphrase (- for standard input). Without it you are prompted.",
)
NEW_FILE = click.Path(path_type=Path, dir_okay=False)
BACKUP_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@contextmanager
def report_file_errors():
    """Turn OSError into a message that ends the command."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'A file'}: {error.strerror}.") from None


@click.group()
def command():
    """Create, verify and restore backups of the installation."""


@command.command()
@click.argument("file", type=NEW_FILE)
@passphrase_file
def create(file, passphrase_file):
    """Write the database, secret key and settings to FILE, encrypted. The panel can keep running."""
    config = start.load_config()
    setup_logging(config.json_logs)
    passphrase = read_passphrase(passphrase_file, is_new=True)
    app = create_worker_app(config)
    if not check_installation(app):
        raise Problem("The database is not reachable. There is nothing to back up.")
    with app.app_context(), report_file_errors():
        manifest = backup_creation.create(config, file.absolute(), passphrase)
        session.rollback()
    click.echo(f"{file}: {format_summary(manifest)}")
    click.echo("Not included; copy these files separately:")
    for image in manifest["images"]:
        click.echo(f"  {config.data_dir / 'images' / image['filename']}  sha256 {image['sha256']}")


@command.command()
@click.argument("file", type=BACKUP_FILE)
@passphrase_file
def verify(file, passphrase_file):
    """Read all of FILE and check its encryption, database, schema revision and row counts."""
    passphrase = read_passphrase(passphrase_file)
    config = Config(**read_environment())
    with report_file_errors(), backup_creation.create_working_directory(config) as directory:
        manifest = backup_restore.read(file, passphrase, directory).manifest
    click.echo(f"{file} is valid: {format_summary(manifest)}")


@command.command()
@click.argument("file", type=BACKUP_FILE)
@passphrase_file
@click.option("--force", is_flag=True, help="Overwrite the existing installation.")
def restore(file, passphrase_file, force):
    """Restore the installation from FILE on this machine. Stop the panel first."""
    passphrase = read_passphrase(passphrase_file)
    config = Config(**read_environment())
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    protect(config.data_dir)
    with report_file_errors(), lock_single_instance(config), create_worker_app(config).app_context():
        backup, missing = backup_restore.restore(config, file, passphrase, is_forced=force)
    click.echo(f"Restored: {format_summary(backup.manifest)}")
    if backup.settings:
        names = ", ".join(backup.settings)
        click.echo(
            f"Set these settings again. Their values are in {config.data_dir / backup_restore.RESTORED_SETTINGS}:"
        )
        click.echo(f"  {names}")
    for image in missing:
        click.echo(f"Copy to {config.data_dir / 'images' / image['filename']}: sha256 {image['sha256']}")
    click.echo("Then run: panel db upgrade, panel up, panel doctor")


def read_passphrase(file, is_new=False):
    if file:
        with click.open_file(file) as stream:
            return stream.readline().rstrip("\n")
    label = f"Passphrase (at least {MIN_PASSPHRASE_LENGTH} characters)" if is_new else "Passphrase"
    return click.prompt(label, hide_input=True, confirmation_prompt=is_new)


def format_summary(manifest):
    rows, tables = sum(manifest["rows"].values()), len(manifest["rows"])
    revision = ", ".join(manifest["revisions"])
    return f"{manifest['database']}, {rows} rows in {tables} tables, revision {revision}, created {manifest['made_at']}"
