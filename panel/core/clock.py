"""The only source of the time in rows, so that tests can move it."""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)
