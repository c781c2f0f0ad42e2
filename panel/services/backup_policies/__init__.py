"""Backup policies: schedule, instances and retention."""

from panel.services.backup_policies.attachments import (
    attach,
    attach_default,
    detach,
    detach_from_owner,
    select_available_instances,
    select_instances,
)
from panel.services.backup_policies.policies import create, delete, get, listing, reset_failures, update

__all__ = [
    "attach",
    "attach_default",
    "create",
    "delete",
    "detach",
    "detach_from_owner",
    "get",
    "listing",
    "reset_failures",
    "select_available_instances",
    "select_instances",
    "update",
]
