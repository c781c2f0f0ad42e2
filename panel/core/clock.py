"""The only clock. Everything that needs the time asks here, so that a test can move it."""

from datetime import UTC, datetime


def now() -> datetime:
    """The current moment, aware, in UTC."""
    return datetime.now(UTC)
