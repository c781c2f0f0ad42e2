"""Migrations of machines from one hypervisor of a location to another."""

from panel.services.migrations.evacuate import evacuate
from panel.services.migrations.read import get, listing
from panel.services.migrations.start import enqueue_cleanup, restart, rollback, start, stop
from panel.services.migrations.target_selection import list_targets, run_checks

__all__ = [
    "enqueue_cleanup",
    "evacuate",
    "get",
    "list_targets",
    "listing",
    "restart",
    "rollback",
    "run_checks",
    "start",
    "stop",
]
