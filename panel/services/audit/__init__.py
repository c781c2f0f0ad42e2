"""The audit log: who did what to which object, from where. Written in the transaction of what it tells of.

A request begins with `follow()`. From then on whatever its session makes, changes or removes is gathered, in rows and
in bulk, and `write()` makes one entry of it before the commit. So no service has to think of the log, and none can
forget.
"""

from panel.services.audit.change_tracking import follow, touch
from panel.services.audit.entries import (
    EXPORTED,
    MOST_EXPORTED,
    add,
    exported,
    get,
    listing,
    refused_sign_in,
    rows,
    told,
    whole,
    write,
)

__all__ = [
    "EXPORTED",
    "MOST_EXPORTED",
    "add",
    "exported",
    "follow",
    "get",
    "listing",
    "refused_sign_in",
    "rows",
    "told",
    "touch",
    "whole",
    "write",
]
