"""Classification of database errors. An outage is an error whose cause is outside the program: the database or its disk
is unavailable, full or busy."""

from typing import Any, NamedTuple

from sqlalchemy.exc import DBAPIError, PendingRollbackError, TimeoutError

SQLITE_PROBLEMS = {5: "busy", 6: "busy", 8: "read-only", 10: "disk error", 13: "disk full", 14: "away"}
"""By primary result code: BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN."""

POSTGRESQL_PROBLEMS = {
    "08": "away",
    "25006": "read-only",
    "40001": "busy",
    "40P01": "busy",
    "53": "overloaded",
    "53100": "disk full",
    "53300": "too many connections",
    "55P03": "busy",
    "57P": "shutting down",
    "58": "disk error",
}
"""By SQLSTATE or a prefix of it."""

REJECTED_COMMIT_STATES = {"busy", "read-only", "disk full", "too many connections", "overloaded"}
"""Problems that mean that a commit was rolled back or not begun. After any other problem it is unknown whether the
commit was done."""

LOST_CONNECTION_CODE = "8s2b"
"""SQLAlchemy's code for a transaction that cannot go on because its connection was lost."""


class Outage(NamedTuple):
    problem: str
    detail: str

    @property
    def is_commit_refused(self) -> bool:
        return self.problem in REJECTED_COMMIT_STATES


def find_outage(error: BaseException | None) -> Outage | None:
    """Return the outage that the error, or one of its causes, reports; None for every other error."""
    while error is not None:
        if problem := classify_error(error):
            return Outage(problem, " ".join(str(getattr(error, "orig", error)).split())[:300])
        error = getattr(error, "original_exception", None) or error.__cause__
    return None


def classify_error(error: BaseException) -> str | None:
    if isinstance(error, TimeoutError):
        return "overloaded"  # every connection of the pool was in use
    if isinstance(error, PendingRollbackError):
        return "away" if error.code == LOST_CONNECTION_CODE else None
    if isinstance(error, DBAPIError) and error.connection_invalidated and not getattr(error.orig, "sqlstate", None):
        return "away"
    return classify_driver_error(error.orig if isinstance(error, DBAPIError) else error)


def classify_driver_error(error: BaseException | None) -> str | None:
    """Return the problem for an error of the SQLite or PostgreSQL driver, or None. Also for errors that were raised
    without SQLAlchemy."""
    if (code := getattr(error, "sqlite_errorcode", None)) is not None:
        return SQLITE_PROBLEMS.get(code & 0xFF)
    if not type(error).__module__.startswith("psycopg"):
        return None
    if state := getattr(error, "sqlstate", None):
        return next(
            (POSTGRESQL_PROBLEMS[state[:size]] for size in (5, 3, 2) if state[:size] in POSTGRESQL_PROBLEMS), None
        )
    # Without a SQLSTATE the server did not answer: it refused or closed the connection.
    return "away" if type(error).__name__ in ("OperationalError", "ConnectionTimeout") else None


def log_failure(log: Any, event: str, error: BaseException, **facts: Any) -> None:
    """Log an outage as one warning, and any other error with its traceback."""
    if outage := find_outage(error):
        log.warning(event, database=outage.problem, detail=outage.detail, **facts)
    else:
        log.error(event, exc_info=error, **facts)
