"""Check a backup, and replace an installation by it, completely or not at all."""

import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import NamedTuple

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from panel.backups import archive, databases
from panel.backups.create import (
    DATABASE_MEMBER,
    KEY_MEMBER,
    MANIFEST_MEMBER,
    SETTINGS_MEMBER,
    create_working_directory,
    hash_file,
)
from panel.core import schema_revision
from panel.core.config import RESTORE_MARKER, Config
from panel.core.data_files import protect
from panel.core.db import make_fernet_keys
from panel.core.errors import Problem
from panel.core.secret_keys import get_key_file, is_database_filled

ARCHIVE_MEMBERS = {MANIFEST_MEMBER, KEY_MEMBER, SETTINGS_MEMBER, DATABASE_MEMBER}
RESTORED_SETTINGS = "restored-settings.json"
REPLACED_PREFIX = "before-restore"


class Backup(NamedTuple):
    """An unpacked backup, read to its end and authenticated."""

    manifest: dict
    secret_key: str
    settings: dict
    database: Path


def read(file: Path, passphrase, directory: Path) -> Backup:
    """Unpack a backup into the directory and check it against its manifest. Raise Problem when it is damaged."""
    with file.open("rb") as stream:
        reader = archive.Reader(stream, passphrase)
        try:
            with tarfile.open(fileobj=reader, mode="r|") as tar:
                for member in tar:
                    source = tar.extractfile(member) if member.isreg() else None
                    if source is None or member.name not in ARCHIVE_MEMBERS:
                        raise Problem(f"The backup has an unknown part: {member.name!r}.")
                    with (directory / member.name).open("wb") as target:
                        shutil.copyfileobj(source, target)
            while reader.read(archive.CHUNK_BYTES):
                pass
        except tarfile.TarError as error:
            raise Problem(f"The backup cannot be read: {error}") from None
    if missing := [name for name in sorted(ARCHIVE_MEMBERS) if not (directory / name).exists()]:
        raise Problem(f"The backup lacks {', '.join(missing)}.")
    manifest, settings = (json.loads((directory / name).read_text()) for name in (MANIFEST_MEMBER, SETTINGS_MEMBER))
    backup = Backup(manifest, (directory / KEY_MEMBER).read_text(), settings, directory / DATABASE_MEMBER)
    check(backup)
    return backup


def check(backup):
    """Raise Problem unless the database in the backup has the manifest's hash, revisions and row counts."""
    manifest = backup.manifest
    if hash_file(backup.database) != manifest["database_sha256"]:
        raise Problem("The database in the backup is not the one that its list of contents names.")
    if manifest["database"] == "sqlite":
        revisions, counts = databases.inspect_sqlite(backup.database)
    else:
        revisions, counts = manifest["revisions"], databases.count_dumped_rows(backup.database)
    differing = [name for name in manifest["rows"] if counts.get(name) != manifest["rows"][name]]
    if revisions != manifest["revisions"] or differing:
        raise Problem(f"Tables differ from what was backed up: {', '.join(differing) or 'alembic_version'}.")


def restore(config: Config, file: Path, passphrase, *, is_forced=False):
    """Replace this installation by the backup. Return the Backup and the images whose files are missing."""
    with create_working_directory(config) as directory:
        backup = read(file, passphrase, directory)
        check_target(config, backup, is_forced)
        if not config.is_sqlite:
            databases.restore_postgresql(config, backup.database)
        marker = config.data_dir / RESTORE_MARKER
        marker.write_text("")
        os.sync()
        replace_files(config, directory)
        os.sync()
        marker.unlink()
    return backup, find_missing_images(config, backup.manifest["images"])


def replace_files(config, directory):
    """Put key, database and settings in their places. Until this is complete, the marker keeps processes from
    starting."""
    if not config.secret_key:
        set_aside(get_key_file(config))
        replace_file(directory / KEY_MEMBER, get_key_file(config))
    if config.is_sqlite:
        database = databases.get_sqlite_path(config)
        for suffix in ("", "-wal", "-shm"):
            set_aside(database.with_name(database.name + suffix))
        database.parent.mkdir(parents=True, exist_ok=True)
        replace_file(directory / DATABASE_MEMBER, database)
    replace_file(directory / SETTINGS_MEMBER, config.data_dir / RESTORED_SETTINGS)
    protect(config.data_dir)


def check_target(config, backup, is_forced):
    """Raise Problem, before any change, when the backup does not fit this version, database or key, or would replace an
    installation without `is_forced`."""
    kind = "sqlite" if config.is_sqlite else "postgresql"
    if backup.manifest["database"] != kind:
        raise Problem(f"The backup is of {backup.manifest['database']}, but PANEL_DATABASE_URL names {kind}.")
    if not set(backup.manifest["revisions"]) <= schema_revision.list_known_revisions()[0]:
        raise Problem("The backup was made by a newer version of the panel. Restore it with that version.")
    if config.secret_key and not can_decrypt(config.secret_key, backup.secret_key):
        raise Problem(
            "PANEL_SECRET_KEY is set and is not the backup's key. Unset it, and the key of the backup is written to"
            f" {get_key_file(config)}."
        )
    is_filled = is_database_filled(config) or get_key_file(config).exists()
    if is_filled and not is_forced and not (config.data_dir / RESTORE_MARKER).exists():
        raise Problem("There is an installation here already. With --force the backup takes its place.")


def can_decrypt(keys, backup_keys):
    """Return whether the configured keys decrypt what the backup's keys have encrypted."""
    configured = MultiFernet([Fernet(key) for key in make_fernet_keys(keys)])
    try:
        for key in make_fernet_keys(backup_keys):
            configured.decrypt(Fernet(key).encrypt(b"test"))
    except InvalidToken:
        return False
    return True


def set_aside(file: Path):
    """Rename a file that is replaced, and keep it until the next restore."""
    old = file.with_name(f"{REPLACED_PREFIX}-{file.name}")
    old.unlink(missing_ok=True)
    if file.exists():
        os.replace(file, old)


def replace_file(source: Path, target: Path):
    """Replace a file atomically by a copy of another one, which may be on a different disk."""
    temporary = target.with_name(f".{target.name}.restored")
    shutil.copyfile(source, temporary)
    temporary.chmod(0o600)
    os.replace(temporary, target)


def find_missing_images(config, images):
    """Return the images whose files are missing on this machine or differ in size."""
    folder = config.data_dir / "images"
    return [
        image
        for image in images
        if not (folder / image["filename"]).exists() or (folder / image["filename"]).stat().st_size != image["size"]
    ]
