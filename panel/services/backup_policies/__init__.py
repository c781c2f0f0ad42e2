"""Backup policies: schedule, instances and retention."""

from panel.services.backup_policies.attachments import (
    attach,
    attach_default,
    count_instances,
    detach,
    detach_from_owner,
    find_attached,
    list_default_locations,
    map_policies,
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
    select_platform_names,
    select_usable_names,
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
    "list_default_locations",
    "listing",
    "map_names",
    "map_policies",
    "reset_failures",
    "select_available_instances",
    "select_instances",
    "select_platform_names",
    "select_usable_names",
    "simulate",
    "update",
]
