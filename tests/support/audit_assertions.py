"""What holds for every request of every test: if it succeeds and writes, it leaves exactly one entry in the audit log;
if it is refused, only reads or is a repetition, it leaves none. A sign-in that was refused is the exception, and so is
one action on many things that was refused for some of them."""

import threading

from sqlalchemy import event
from sqlalchemy.engine import Engine

from api.errors import dialect

READING = ("GET", "HEAD", "OPTIONS")
REFUSALS = ("/sign-in", "/sso")
PARTLY = ("/bulk",)
written = threading.local()
"""The tables that this thread's request has written to, without what was rolled back."""


def begin():
    written.tables = []


@event.listens_for(Engine, "before_cursor_execute")
def statement_runs(connection, cursor, statement, *_):
    verb, _, rest = statement.lstrip().partition(" ")
    if verb.upper() in ("INSERT", "UPDATE", "DELETE") and hasattr(written, "tables"):
        words = [word for word in rest.split() if word.upper() not in ("INTO", "FROM")]
        written.tables.append(words[0])


@event.listens_for(Engine, "rollback")
@event.listens_for(Engine, "rollback_savepoint")
def rolled_back(*_):
    begin()


def check(method, path, answer):
    entries, others = written.tables.count("audit"), [name for name in written.tables if name != "audit"]
    if answer.status_code >= 400 or "Idempotency-Replayed" in answer.headers:
        assert entries == 0 or path.startswith(REFUSALS) or path.endswith(PARTLY)
    elif method in READING:
        assert entries == bool(others)
    elif dialect(path) or others:
        assert entries == 1
