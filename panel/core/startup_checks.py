"""Checks before a process serves: the tables have this version's revision, and the secret key decrypts their values."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import structlog
from cryptography.fernet import InvalidToken
from sqlalchemy import Column, Text, select, type_coerce
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from panel.core import context, schema_revision, secret_keys
from panel.core.config import Config, ConfigError
from panel.core.database_errors import find_outage
from panel.core.db import EncryptedText, db, session
from panel.models import InstallationValue

if TYPE_CHECKING:
    from flask import Flask

log = structlog.get_logger()

KEY_ROW_PREFIX = "secret_key:"
KEY_ROW_TEXT = "This text is encrypted with a secret key of this installation."


def check_installation(app: "Flask") -> bool:
    """Raise ConfigError when this process must not run on this database. Return False when the database is unavailable:
    the process then starts, and the database probe repeats the checks."""
    with app.app_context():
        try:
            schema_revision.check_current(session.connection())
            check_secret_keys(app.extensions["config"])
            session.commit()
        except SQLAlchemyError as error:
            outage = find_outage(error)
            if outage is None:
                raise
            log.warning("startup_check_postponed", database=outage.problem, detail=outage.detail)
            return False
        finally:
            session.rollback()
    return True


def record_installation(app: "Flask") -> None:
    """Record which key encrypts the values of this database. Raise ConfigError when the configured keys cannot read
    them."""
    if schema_revision.read_database_revisions(session.connection()) == schema_revision.list_known_revisions()[1]:
        check_secret_keys(app.extensions["config"])
    session.commit()


def check_secret_keys(config: Config) -> None:
    """Raise ConfigError unless the configured keys decrypt a sample for every recorded key; record the newest key.
    Databases without recorded keys are sampled column by column."""
    rows = select(InstallationValue).where(InstallationValue.name.startswith(KEY_ROW_PREFIX))
    recorded = {row.name: row.value for row in session.scalars(rows)}
    values = list(recorded.values()) or [value for _, value in select_sample_values()]
    if not all(map(is_readable, values)):
        key_file = secret_keys.get_key_file(config)
        raise ConfigError(
            "The secret key is wrong or incomplete: it does not open what this database has encrypted. Put the right"
            f" one into {key_file} or PANEL_SECRET_KEY (it is in your backup). After a change of"
            " keys give the older ones too, behind the new one, with commas between them."
        )
    name = KEY_ROW_PREFIX + secret_keys.compute_fingerprint(config.secret_key.split(",")[0])
    if name not in recorded:
        record_key(name)


def record_key(name: str) -> None:
    try:
        with session.begin_nested():
            session.add(
                InstallationValue(name=name, value=context.current().encryption.encrypt(KEY_ROW_TEXT.encode()).decode())
            )
    except IntegrityError:
        pass  # another process that starts at the same time recorded it


def list_encrypted_columns() -> Iterator[Column[str]]:
    for table in db.metadata.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, EncryptedText):
                yield column


def select_sample_values() -> Iterator[tuple[str, str]]:
    """Yield (table.column, ciphertext) of one value for every encrypted column that has any."""
    for column in list_encrypted_columns():
        query = select(type_coerce(column, Text)).where(column.is_not(None)).limit(1)
        if (value := session.scalar(query)) is not None:
            yield f"{column.table.name}.{column.name}", value


def is_readable(value: str) -> bool:
    try:
        context.current().encryption.decrypt(value.encode())
    except InvalidToken:
        return False
    return True
