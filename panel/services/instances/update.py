"""Changing what people may edit."""

from panel.core.db import session
from panel.services import firewall


def update(instance, *, actor="system", **changes):
    """Sets labels, notes and switches. What the guest reads at its first boot (its host name) is not pushed into it."""
    mail = instance.enable_smtp
    for field, value in changes.items():
        setattr(instance, field, value)
    session.flush()
    if instance.enable_smtp != mail:
        firewall.apply_to_affected(instances=[instance.id], actor=actor)
    return instance
