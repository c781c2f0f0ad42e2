"""`panel backup`: create, verify and restore encrypted backups, and fetch them from a destination."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import click
from marshmallow import ValidationError

from panel.backups import create as backup_creation
from panel.backups import restore as backup_restore
from panel.bootstrap import create_worker_app
from panel.cli import start
from panel.cli.up import lock_single_instance
from panel.core.config import Config, read_environment
from panel.core.data_files import protect
from panel.core.db import session
from panel.core.errors import Invalid, Problem
from panel.core.logs import setup_logging
from panel.core.startup_checks import check_installation
from panel.schemas.installation_backups import MIN_PASSPHRASE_LENGTH, InstallationDestinationIn
from panel.services.backup_destination_settings import merge_settings
from panel.services.backup_destinations import ARCHIVE_FOLDER
from worker.backups import archives
from worker.backups.errors import ObjectNotFound, StoreError
from worker.tasks.backup_targets import build_target

passphrase_file = click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="File with the passphrase (- for standard input). Without it you are prompted.",
)
LATEST_ARCHIVE = "latest"
MISSING_PLACE_MESSAGE = "The destination has no archives. Check its settings, and that its disk is mounted."
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
    """Create, verify and restore backups of the installation, and fetch them from a destination."""


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


@command.command("list")
@click.argument("destination", type=BACKUP_FILE)
def listing(destination):
    """List the archives in a destination: time, bytes, version of the panel, name.

    DESTINATION is a JSON file with `storage_type` and `config`, as they are sent to add a destination. Needs no
    database.
    """
    with report_store_errors():
        target = open_archives(destination)
        for name in archives.list_names(target):
            manifest = archives.read_manifest(target, name)
            click.echo("  ".join((manifest.created_at, str(manifest.size), manifest.version, name)))


@command.command()
@click.argument("destination", type=BACKUP_FILE)
@click.argument("archive")
@click.argument("file", type=NEW_FILE)
def fetch(destination, archive, file):
    """Copy ARCHIVE from a destination to a new FILE. `latest` is the newest archive.

    DESTINATION is the same file as for `list`. Restore FILE with `panel backup restore`. Needs no database.
    """
    if file.exists():
        raise Problem(f"{file} exists already. Name a new file.")
    with report_file_errors(), report_store_errors():
        target = open_archives(destination)
        names = list(archives.list_names(target))
        name = names[-1] if archive == LATEST_ARCHIVE and names else archive
        if name not in names:
            raise Problem("The destination has no such archive.")
        temporary = file.with_name(f".{file.name}.part")
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
                manifest = archives.fetch(target, name, stream)
            os.link(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
    click.echo(f"{file}: {manifest.size} bytes, created {manifest.created_at}")


@contextmanager
def report_store_errors():
    """Turn errors of a destination into a message that ends the command."""
    try:
        yield
    except StoreError as error:
        raise click.ClickException(str(error)) from None


def open_archives(file):
    """Return the place of archives in the destination. Raise Problem when there is none."""
    target = open_destination(file)
    try:
        archives.ensure_place(target)
    except StoreError as error:
        if isinstance(error.__cause__, ObjectNotFound):
            raise Problem(MISSING_PLACE_MESSAGE) from None
        raise
    return target


def open_destination(file):
    """Return the place of archives in the destination that the file describes."""
    try:
        values = InstallationDestinationIn(partial=("name",)).load(json.loads(file.read_text()))
        config = merge_settings(values["storage_type"], {}, values["config"])
    except Invalid as error:
        raise Problem(f"{file} does not describe a destination: {join_errors(error.fields) or error.message}") from None
    except ValidationError as error:
        text = join_errors(error.normalized_messages())
        raise Problem(f"{file} does not describe a destination: {text}") from None
    except ValueError as error:
        raise Problem(f"{file} does not describe a destination: {error}") from None
    return build_target(values["storage_type"], config, ARCHIVE_FOLDER)


def join_errors(errors, path=""):
    """Return the errors of fields as one text: the name of each field and what is wrong with it."""
    if not isinstance(errors, dict):
        return f"{path}: {' '.join(map(str, errors))}"
    return " ".join(join_errors(inner, f"{path}.{name}".strip(".")) for name, inner in errors.items())


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
