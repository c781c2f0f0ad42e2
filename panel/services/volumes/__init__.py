"""Volumes: what can be done with them, and when. Callers have been authorised; ids were fetched through their owner."""

from panel.services.volumes.actions import attach, create, delete, delete_again, detach, resize, undeleted
from panel.services.volumes.read import get, listing
from panel.services.volumes.snapshots import delete_snapshot, restore, snapshot, snapshot_of

__all__ = [
    "attach",
    "create",
    "delete",
    "delete_again",
    "delete_snapshot",
    "detach",
    "get",
    "listing",
    "resize",
    "restore",
    "snapshot",
    "snapshot_of",
    "undeleted",
]
