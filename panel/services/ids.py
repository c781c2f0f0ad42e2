"""Random values that are not used yet."""

import secrets

from sqlalchemy import select

from panel.core.db import session


def generate_unique(column, make):
    """Return a random value that the column does not have yet. Its unique index still decides between concurrent
    calls."""
    while session.scalar(select(column).where(column == (value := make()))):
        pass
    return value


def random_mac():
    """Return a MAC address of the locally administered range that libvirt also uses for its machines."""
    return "52:54:" + ":".join(f"{byte:02x}" for byte in secrets.token_bytes(4))
