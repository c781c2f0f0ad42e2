"""Random names and addresses that are not used yet."""

import secrets
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute

from panel.core.db import session
from panel.models import Instance, Interface, Volume

Value = TypeVar("Value")


def generate_unique(column: InstrumentedAttribute[Value], make: Callable[[], Value]) -> Value:
    """Return a random value that the column does not have yet. Its unique index still decides between concurrent
    calls."""
    while session.scalar(select(column).where(column == (value := make()))):
        pass
    return value


def generate_number() -> int:
    """Return a number of eight digits."""
    return secrets.randbelow(9 * 10**7) + 10**7


def generate_instance_name() -> str:
    return generate_unique(Instance.name, lambda: f"h{generate_number()}")


def generate_volume_disk_name() -> str:
    return generate_unique(Volume.disk_name, lambda: f"v{generate_number()}.qcow2")


def generate_mac() -> str:
    """Return a MAC address of the locally administered range that libvirt also uses for its machines."""
    return generate_unique(Interface.mac, lambda: "52:54:" + ":".join(f"{byte:02x}" for byte in secrets.token_bytes(4)))
