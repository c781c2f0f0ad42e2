"""What operators set for the whole platform. A process remembers it for some seconds, so that asking costs nothing."""

import time
from types import SimpleNamespace

from sqlalchemy import select

from panel.core.db import on_commit, session
from panel.models import Setting
from panel.schemas.settings import SystemSettings

REMEMBERED = 5
"""Seconds until a change is known to every process."""
known = (0, None)
"""Until when what is good. Replaced as one: threads look at it at any time."""


def get():
    """All settings as attributes: what was set, else the default. At most `REMEMBERED` seconds old."""
    global known
    until, found = known
    now = time.monotonic()
    if found is None or until < now:
        found = stored()
        known = now + REMEMBERED, found
    return found


def stored():
    """The same as the database has it now."""
    defaults = {name: field.load_default for name, field in SystemSettings._declared_fields.items()}
    return SimpleNamespace(**defaults | dict(session.execute(select(Setting.name, Setting.value)).all()))


def update(changes):
    """Sets these and leaves the others; returns all. Other processes follow within `REMEMBERED` seconds."""
    for name, value in changes.items():
        session.merge(Setting(name=name, value=value))
    session.flush()
    forget()
    on_commit(forget)
    return stored()


def forget():
    global known
    known = 0, None
