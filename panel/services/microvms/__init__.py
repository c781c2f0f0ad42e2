"""Micro VMs: their images, the nodes that take them, and everything that can be done with them.

Callers have been authorized; ids were fetched through their owner.
"""

from panel.services.microvms import (
    boots,
    connectors,
    expiry,
    guest_reports,
    image_builds,
    images,
    network,
    pool_members,
    pools,
    profiles,
    settings,
    snapshots,
    state_reports,
    usages,
)
from panel.services.microvms.actions import destroy, pause, restart, resume, set_timeout, start, stop, update
from panel.services.microvms.create import SIZES, create, list_locations, locations_error
from panel.services.microvms.read import (
    find_connector,
    find_route,
    get,
    get_by_sandbox_id,
    has_ended,
    list_by_sandbox_ids,
    listing,
    select_by_start,
)
from panel.services.microvms.state_reports import purge_expired

__all__ = [
    "SIZES",
    "boots",
    "connectors",
    "create",
    "destroy",
    "expiry",
    "find_connector",
    "find_route",
    "get",
    "get_by_sandbox_id",
    "guest_reports",
    "has_ended",
    "image_builds",
    "images",
    "list_by_sandbox_ids",
    "list_locations",
    "listing",
    "locations_error",
    "network",
    "pause",
    "pool_members",
    "pools",
    "profiles",
    "purge_expired",
    "restart",
    "resume",
    "select_by_start",
    "set_timeout",
    "settings",
    "snapshots",
    "start",
    "state_reports",
    "stop",
    "update",
    "usages",
]
