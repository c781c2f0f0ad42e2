"""Checks of the audit log for every request of every test.

A request that succeeds and writes leaves exactly one entry; one that is refused, only reads or is a replay leaves none.
Exceptions: a refused sign-in, and a bulk action that was refused for some resources.
"""

import threading

from sqlalchemy import event
from sqlalchemy.engine import Engine

from api.errors import find_dialect

READ_METHODS = ("GET", "HEAD", "OPTIONS")
AUDITED_REFUSAL_PATHS = ("/sign-in", "/sso")
PARTIAL_SUCCESS_SUFFIXES = ("/bulk", "backups/destroy")
written_tables = threading.local()
"""Tables that this thread's request wrote to, without rolled back writes."""


def reset_written_tables():
    written_tables.tables = []


@event.listens_for(Engine, "before_cursor_execute")
def record_write(connection, cursor, statement, *_):
    verb, _, target = statement.lstrip().partition(" ")
    if verb.upper() in ("INSERT", "UPDATE", "DELETE") and hasattr(written_tables, "tables"):
        names = [name for name in target.split() if name.upper() not in ("INTO", "FROM")]
        written_tables.tables.append(names[0])


@event.listens_for(Engine, "rollback")
@event.listens_for(Engine, "rollback_savepoint")
def on_rollback(*_):
    reset_written_tables()


def check_audit_entries(method, path, answer):
    entries, others = written_tables.tables.count("audit"), [name for name in written_tables.tables if name != "audit"]
    if answer.status_code >= 400 or "Idempotency-Replayed" in answer.headers:
        assert entries == 0 or path.startswith(AUDITED_REFUSAL_PATHS) or path.endswith(PARTIAL_SUCCESS_SUFFIXES)
    elif method in READ_METHODS:
        assert entries == bool(others)
    elif find_dialect(path) or others:
        assert entries == 1
