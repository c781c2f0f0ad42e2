"""The audit log: who did what to which object, from where. Entries are written in the transaction that they describe.

A request begins with `start_tracking()`. From then on all rows that its session creates, changes or removes are
recorded, single ones and bulk statements, and `write()` makes one entry of them before the commit. Services need no
code for the audit log, so none can forget it.
"""

from panel.services.audit.change_tracking import start_tracking, track
from panel.services.audit.entries import (
    EXPORT_COLUMNS,
    MAX_EXPORTED_ENTRIES,
    add,
    add_failed_sign_in,
    can_see_full_log,
    get,
    iter_export,
    listing,
    with_full_columns,
    with_redacted_columns,
    write,
)

__all__ = [
    "EXPORT_COLUMNS",
    "MAX_EXPORTED_ENTRIES",
    "add",
    "add_failed_sign_in",
    "can_see_full_log",
    "get",
    "iter_export",
    "listing",
    "start_tracking",
    "track",
    "with_full_columns",
    "with_redacted_columns",
    "write",
]
