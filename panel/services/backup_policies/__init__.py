"""Backup policies: schedule, instances and retention."""

from panel.services.backup_policies.attachments import (
    attach,
    attach_default,
    count_instances,
    detach,
    detach_from_owner,
    find_attached,
    select_available_instances,
    select_instances,
)
from panel.services.backup_policies.policies import (
    build,
    create,
    delete,
    get,
    listing,
    map_names,
    reset_failures,
    update,
)
from panel.services.backup_policies.simulation import Simulation, simulate

__all__ = [
    "Simulation",
    "attach",
    "attach_default",
    "build",
    "count_instances",
    "create",
    "delete",
    "detach",
    "detach_from_owner",
    "find_attached",
    "get",
    "listing",
    "map_names",
    "reset_failures",
    "select_available_instances",
    "select_instances",
    "simulate",
    "update",
]
