"""Updating the editable fields of an instance."""

from typing import Any

from panel.core.db import session
from panel.models import Instance
from panel.services import firewall


def update(instance: Instance, *, actor: str = "system", **changes: Any) -> Instance:
    """Set labels, notes and switches. Values that the guest reads at its first boot, such as the host name, are not
    changed in the guest."""
    smtp_before = instance.enable_smtp
    for field, value in changes.items():
        setattr(instance, field, value)
    session.flush()
    if instance.enable_smtp != smtp_before:
        firewall.apply_to_affected(instances=[instance.id], actor=actor)
    return instance
