"""Backups of instances: create, list, protect, delete."""

from panel.services.instance_backups.create import (
    create,
    end_volume_chain,
    enqueue_chain_reset,
    ensure_disk_known,
    find_previous,
    get_new_backup_destination,
    list_other_checkpoints,
    list_volume_checkpoints,
    on_instance_destroyed,
    record_complete,
    record_failed,
    reset_chain,
)
from panel.services.instance_backups.delete import (
    claim,
    claim_all,
    confirm_deletion,
    get_outcome_error,
    release_claim,
)
from panel.services.instance_backups.read import (
    find_by_id,
    get,
    get_chain,
    get_of_instance,
    listing,
    map_open_tasks,
    set_protected,
)
from panel.services.instance_backups.snapshots import find_snapshot, map_snapshots, record_snapshot

__all__ = [
    "claim",
    "claim_all",
    "confirm_deletion",
    "create",
    "end_volume_chain",
    "enqueue_chain_reset",
    "ensure_disk_known",
    "find_by_id",
    "find_previous",
    "find_snapshot",
    "get",
    "get_chain",
    "get_new_backup_destination",
    "get_of_instance",
    "get_outcome_error",
    "list_other_checkpoints",
    "list_volume_checkpoints",
    "listing",
    "map_open_tasks",
    "map_snapshots",
    "on_instance_destroyed",
    "record_complete",
    "record_failed",
    "record_snapshot",
    "release_claim",
    "reset_chain",
    "set_protected",
]
