"""Create a backup of the running installation."""

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path

from sqlalchemy import select

import panel
from panel.backups import archive, databases
from panel.core import clock
from panel.core.config import Config, read_environment
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import Image

MANIFEST_MEMBER, KEY_MEMBER, SETTINGS_MEMBER, DATABASE_MEMBER = (
    "manifest.json",
    "secret_key",
    "settings.json",
    "database",
)
WORKING_DIRECTORY_PREFIX = ".backup-"
WORKING_DIRECTORY_MAX_AGE_SECONDS = 24 * 3600
"""No backup takes longer."""

MACHINE_SETTINGS = {"data_dir", "database_url", "redis_url", "secret_key", "bind"}
"""Settings of the machine, which are not in a backup. The secret key is a separate member of the archive."""


def create(config: Config, target: Path, passphrase):
    """Write a backup to `target`, which appears only when it is complete. Return its manifest. Raise Problem when the
    file exists."""
    if target.exists():
        raise Problem(f"{target} exists already. Name a new file.")
    with copy_installation(config) as (manifest, database):
        temporary = target.with_name(f".{target.name}.part")
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                write_archive(file, passphrase, manifest, config, database)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    return manifest


@contextmanager
def copy_installation(config: Config):
    """Copy the database. Yield the manifest of a backup and the file with the copy, which is deleted afterwards."""
    with create_working_directory(config) as directory:
        database = directory / DATABASE_MEMBER
        revisions, counts = databases.copy_database(config, database)
        manifest = {
            "made_at": clock.now().isoformat(),
            "panel": panel.__version__,
            "database": "sqlite" if config.is_sqlite else "postgresql",
            "database_sha256": hash_file(database),
            "revisions": revisions,
            "rows": counts,
            "images": list_images(),
        }
        yield manifest, database


def write_archive(file, passphrase, manifest, config, database):
    """Write the encrypted archive to an object with the method `write`."""
    writer = archive.Writer(file, passphrase)
    with tarfile.open(fileobj=writer, mode="w|") as tar:
        add_member(tar, MANIFEST_MEMBER, json.dumps(manifest, indent=1).encode())
        add_member(tar, KEY_MEMBER, config.secret_key.encode())
        add_member(tar, SETTINGS_MEMBER, json.dumps(list_portable_settings(), indent=1, default=str).encode())
        tar.add(database, DATABASE_MEMBER)
    writer.finish()


def add_member(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def list_portable_settings():
    """Return the settings of the environment except those of the machine, by the names of their variables."""
    values = read_environment()
    names = [field.name for field in fields(Config) if field.name in values and field.name not in MACHINE_SETTINGS]
    return {f"PANEL_{name.upper()}": value for name, value in ((name, values[name]) for name in names)}


def list_images():
    """Return name, filename, size and hash of the images in the database. Their files are too large for a backup."""
    rows = session.execute(
        select(Image.name, Image.filename, Image.size, Image.sha256)
        .where(Image.filename != "")
        .order_by(Image.filename)
    )
    return [dict(row._mapping) for row in rows]


@contextmanager
def create_working_directory(config):
    """Yield a temporary directory in the data directory, which only the panel's user may read."""
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=config.data_dir, prefix=WORKING_DIRECTORY_PREFIX) as directory:
        yield Path(directory)


def delete_abandoned_directories(config: Config) -> None:
    """Delete the copies of databases that processes left which were killed while they made a backup."""
    for directory in config.data_dir.glob(f"{WORKING_DIRECTORY_PREFIX}*"):
        with suppress(FileNotFoundError):  # another process has deleted it
            if directory.stat().st_mtime < time.time() - WORKING_DIRECTORY_MAX_AGE_SECONDS:
                shutil.rmtree(directory, ignore_errors=True)


def hash_file(file):
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
