"""Changing what people may edit."""

from panel.db import session


def update(instance, **changes):
    """Sets labels, notes and switches. What the guest reads at its first boot (its host name) is not pushed into it."""
    for field, value in changes.items():
        setattr(instance, field, value)
    session.flush()
    return instance
