"""Values that nothing has yet."""

import secrets

from sqlalchemy import select

from panel.core.db import session


def generate_unique(column, make):
    """A random value that the column does not hold yet; its unique index has the last word."""
    while session.scalar(select(column).where(column == (value := make()))):
        pass
    return value


def random_mac():
    """An address of the locally administered range that libvirt's own machines also use."""
    return "52:54:" + ":".join(f"{byte:02x}" for byte in secrets.token_bytes(4))
