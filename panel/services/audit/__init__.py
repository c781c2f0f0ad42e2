"""The audit log: who did what to which object, from where. Written in the transaction of what it tells of.

A request begins with `follow()`. From then on whatever its session makes, changes or removes is gathered, in rows and
in bulk, and `write()` makes one entry of it before the commit. So no service has to think of the log, and none can
forget.
"""

from panel.services.audit.change_tracking import start_tracking, track
from panel.services.audit.entries import (
    EXPORT_COLUMNS,
    MAX_EXPORTED_ENTRIES,
    add,
    add_failed_sign_in,
    full_rows,
    get,
    iter_export,
    listing,
    redacted_rows,
    sees_full_trail,
    write,
)

__all__ = [
    "EXPORT_COLUMNS",
    "MAX_EXPORTED_ENTRIES",
    "add",
    "add_failed_sign_in",
    "full_rows",
    "get",
    "iter_export",
    "listing",
    "redacted_rows",
    "sees_full_trail",
    "start_tracking",
    "track",
    "write",
]
