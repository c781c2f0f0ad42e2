"""Screens and shells of instances: who may open one, once, and until when it may stay open.

A session is minted (mint.py), spent by the first connection that shows its secret (spend.py), told of by the console
process (told.py) and closed when it is no longer allowed (watch.py).
"""

from panel.services.consoles.read import close, close_all, current, find, get, listing, opened
from panel.services.consoles.session_create import (
    NO_SCREEN,
    SCREEN_LASTS,
    SHELL_LASTS,
    ring,
    screen,
    shell,
    shell_refusal,
    why_no_screen,
)
from panel.services.consoles.session_events import (
    ended,
    host_keys,
    is_open,
    left_keys,
    seen,
    settle,
    target,
    tidy,
    trust,
)
from panel.services.consoles.session_redeem import give_back, note, refusal, spend
from panel.services.consoles.session_revocation import unwelcome

__all__ = [
    "NO_SCREEN",
    "SCREEN_LASTS",
    "SHELL_LASTS",
    "close",
    "close_all",
    "current",
    "ended",
    "find",
    "get",
    "give_back",
    "host_keys",
    "is_open",
    "left_keys",
    "listing",
    "note",
    "opened",
    "refusal",
    "ring",
    "screen",
    "seen",
    "settle",
    "shell",
    "shell_refusal",
    "spend",
    "target",
    "tidy",
    "trust",
    "unwelcome",
    "why_no_screen",
]
