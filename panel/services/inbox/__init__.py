"""The inbox: what happened that a person should know. Callers have been authorized.

Whoever notices something records it with `record`, in the transaction of the change or in a job that looks for it.
"""

from panel.services.inbox.kinds import KINDS, InboxKind
from panel.services.inbox.messages import (
    MAX_COUNTED_UNREAD,
    count_unread,
    get,
    list_newest,
    listing,
    mark_all_read,
    mark_read,
    purge_expired,
)
from panel.services.inbox.preferences import list_preferences, update_preferences
from panel.services.inbox.recording import Report, record

__all__ = [
    "KINDS",
    "MAX_COUNTED_UNREAD",
    "InboxKind",
    "Report",
    "count_unread",
    "get",
    "list_newest",
    "list_preferences",
    "listing",
    "mark_all_read",
    "mark_read",
    "purge_expired",
    "record",
    "update_preferences",
]
