"""Moving machines from one hypervisor of a location to another."""

from panel.services.migrations.evacuate import evacuate
from panel.services.migrations.read import get, listing
from panel.services.migrations.start import clean, restart, rollback, start, stop
from panel.services.migrations.target_selection import checks, targets

__all__ = ["checks", "clean", "evacuate", "get", "listing", "restart", "rollback", "start", "stop", "targets"]
