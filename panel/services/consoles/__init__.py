"""Screens and shells of instances: who may open one, once, and how long it may stay open.

A console session is created (session_create.py), redeemed by the first connection with its secret (session_redeem.py),
reported on by the console server (session_events.py) and closed when it is no longer permitted (session_revocation.py).
"""

from panel.services.consoles.read import close, close_all, find, find_current, get, listing, select_open
from panel.services.consoles.session_create import (
    SHELL_SESSION_TTL_SECONDS,
    VNC_SESSION_TTL_SECONDS,
    create_shell_session,
    create_vnc_session,
    enqueue_vnc_preparation,
    shell_error,
    vnc_error,
)
from panel.services.consoles.session_events import (
    accept_host_key,
    describe_host_keys,
    find_target,
    list_stale_keys,
    purge_expired,
    record_alive,
    record_ended,
    record_opened,
    sweep_lost,
)
from panel.services.consoles.session_redeem import describe_session, redeem, redeem_error, release
from panel.services.consoles.session_revocation import find_sessions_to_close

__all__ = [
    "SHELL_SESSION_TTL_SECONDS",
    "VNC_SESSION_TTL_SECONDS",
    "accept_host_key",
    "close",
    "close_all",
    "create_shell_session",
    "create_vnc_session",
    "describe_host_keys",
    "describe_session",
    "enqueue_vnc_preparation",
    "find",
    "find_current",
    "find_sessions_to_close",
    "find_target",
    "get",
    "list_stale_keys",
    "listing",
    "purge_expired",
    "record_alive",
    "record_ended",
    "record_opened",
    "redeem",
    "redeem_error",
    "release",
    "select_open",
    "shell_error",
    "sweep_lost",
    "vnc_error",
]
