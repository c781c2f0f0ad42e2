"""The installation's secret key: its file, creation and fingerprint."""

import os
import secrets
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from panel.core.config import Config, ConfigError


def get_key_file(config: Config) -> Path:
    return config.data_dir / "secret_key"


def read_or_create(config: Config) -> str:
    """Return the key from the installation's key file. Create it first if the database is empty."""
    file = get_key_file(config)
    try:
        if not file.exists():
            ensure_database_empty(config)
            create(file)
        key = file.read_text().strip()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read or made: {error.strerror}.") from None
    if not key:
        raise ConfigError(f"The secret key in {file} is empty. Put the file back from your backup.")
    return key


def create(file: Path) -> None:
    """Create the file with a new key atomically, so that no other process reads a part of it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=".secret_key-")
    try:
        with os.fdopen(descriptor, "w") as handle:
            handle.write(secrets.token_urlsafe(48))
            handle.flush()
            os.fsync(handle.fileno())
        with suppress(FileExistsError):  # another process was first; use its key
            os.link(temporary, file)
    finally:
        os.unlink(temporary)


def ensure_database_empty(config: Config) -> None:
    """Raise ConfigError when the database has tables: a new key could not decrypt their values."""
    if is_database_filled(config):
        raise ConfigError(
            f"The secret key is missing: {get_key_file(config)} does not exist, but the database holds an installation."
            " Put the file back from your backup, or set PANEL_SECRET_KEY. No new key was made."
        )


def is_database_filled(config: Config) -> bool:
    """Return whether the database has tables. Raise ConfigError when it cannot be reached."""
    from sqlalchemy import create_engine, inspect, make_url
    from sqlalchemy.exc import SQLAlchemyError

    if config.is_sqlite and not os.path.exists(make_url(config.database_url).database or ""):
        return False
    connect_args = {} if config.is_sqlite else {"connect_timeout": 5}
    engine = create_engine(config.database_url, connect_args=connect_args)
    try:
        return bool(set(inspect(engine).get_table_names()) - {"alembic_version"})
    except SQLAlchemyError as error:
        raise ConfigError(
            "There is no secret key yet, and the database does not say whether it is new"
            f" ({getattr(error, 'orig', error)}). Start the database, or set PANEL_SECRET_KEY."
        ) from None
    finally:
        engine.dispose()


def compute_fingerprint(key: str) -> str:
    """Return a short hash that identifies a key without revealing it."""
    return sha256(b"fingerprint:" + key.strip().encode()).hexdigest()[:16]
