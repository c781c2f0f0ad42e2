"""What operators set for the whole platform. A process remembers it for some seconds, so that asking costs nothing."""

import time
from types import SimpleNamespace

from sqlalchemy import select

from panel.core.db import on_commit, session
from panel.models import Setting
from panel.schemas.settings import SystemSettings

SETTINGS_CACHE_SECONDS = 5
"""Seconds until a change is known to every process."""
cached_settings = (0, None)
"""Until when what is good. Replaced as one: threads look at it at any time."""


def get():
    """All settings as attributes: what was set, else the default. At most `SETTINGS_CACHE_SECONDS` seconds old."""
    global cached_settings
    until, found = cached_settings
    now = time.monotonic()
    if found is None or until < now:
        found = load()
        cached_settings = now + SETTINGS_CACHE_SECONDS, found
    return found


def load():
    """The same as the database has it now."""
    defaults = {name: field.load_default for name, field in SystemSettings._declared_fields.items()}
    return SimpleNamespace(**defaults | dict(session.execute(select(Setting.name, Setting.value)).all()))


def update(changes):
    """Sets these and leaves the others; returns all. Other processes follow within `SETTINGS_CACHE_SECONDS` seconds."""
    for name, value in changes.items():
        session.merge(Setting(name=name, value=value))
    session.flush()
    invalidate()
    on_commit(invalidate)
    return load()


def invalidate():
    global cached_settings
    cached_settings = 0, None
