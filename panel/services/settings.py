"""Settings of the whole platform, set by operators. Each process caches them for some seconds."""

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from sqlalchemy import select

from panel.core import context
from panel.core.db import on_commit, session
from panel.models import Setting
from panel.schemas.settings import SystemSettings

SETTINGS_CACHE_SECONDS = 5
"""Seconds until a change is visible in every process."""
DEFAULT_SETTINGS = {name: field.load_default for name, field in SystemSettings().fields.items()}


def get() -> SimpleNamespace:
    """Return all settings as attributes, with defaults. They are at most `SETTINGS_CACHE_SECONDS` seconds old."""
    process = context.current()
    expires_at, settings = process.cached_settings
    now = time.monotonic()
    if settings is None or expires_at < now:
        settings = load()
        process.cached_settings = now + SETTINGS_CACHE_SECONDS, settings
    return settings


def load() -> SimpleNamespace:
    """Return all settings as they are in the database now."""
    return SimpleNamespace(**DEFAULT_SETTINGS | dict(session.execute(select(Setting.name, Setting.value)).all()))


def update(changes: Mapping[str, Any]) -> SimpleNamespace:
    """Set these settings and return all. Other processes follow within `SETTINGS_CACHE_SECONDS` seconds."""
    for name, value in changes.items():
        session.merge(Setting(name=name, value=value))
    session.flush()
    invalidate()
    on_commit(invalidate)
    return load()


def invalidate() -> None:
    context.current().cached_settings = 0, None
