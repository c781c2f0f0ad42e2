"""Volumes: actions and their conditions. Callers have been authorized; ids were fetched through their owner."""

from panel.services.volumes.actions import attach, create, delete, detach, resize, retry_delete, select_undeleted
from panel.services.volumes.read import get, listing
from panel.services.volumes.snapshots import create_snapshot, delete_snapshot, get_snapshot, restore

__all__ = [
    "attach",
    "create",
    "create_snapshot",
    "delete",
    "delete_snapshot",
    "detach",
    "get",
    "get_snapshot",
    "listing",
    "resize",
    "restore",
    "retry_delete",
    "select_undeleted",
]
