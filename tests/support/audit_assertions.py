"""What holds for every request of every test: if it succeeds and writes, it leaves exactly one entry in the audit log;
if it is refused, only reads or is a repetition, it leaves none. A sign-in that was refused is the exception, and so is
one action on many things that was refused for some of them."""

import threading

from sqlalchemy import event
from sqlalchemy.engine import Engine

from api.errors import dialect

READ_METHODS = ("GET", "HEAD", "OPTIONS")
AUDITED_REFUSAL_PATHS = ("/sign-in", "/sso")
PARTIAL_SUCCESS_SUFFIXES = ("/bulk",)
written_tables = threading.local()
"""The tables that this thread's request has written to, without what was rolled back."""


def reset_written_tables():
    written_tables.tables = []


@event.listens_for(Engine, "before_cursor_execute")
def record_write(connection, cursor, statement, *_):
    verb, _, rest = statement.lstrip().partition(" ")
    if verb.upper() in ("INSERT", "UPDATE", "DELETE") and hasattr(written_tables, "tables"):
        words = [word for word in rest.split() if word.upper() not in ("INTO", "FROM")]
        written_tables.tables.append(words[0])


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
    elif dialect(path) or others:
        assert entries == 1
