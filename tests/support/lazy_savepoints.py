"""Savepoints that are sent to the database before the first write in them, because most transactions only read.

The session of a test begins a savepoint for each of its transactions. On PostgreSQL rollbacks go around the driver,
which would otherwise discard all prepared statements: then each test would have its queries planned again.
"""

from psycopg.errors import InFailedSqlTransaction
from psycopg.pq import ExecStatus
from sqlalchemy import event


def delay_savepoints(engine):
    """Delay the savepoints of all connections of the engine."""
    dialect = engine.dialect
    release, roll_back = dialect.do_release_savepoint, dialect.do_rollback_to_savepoint

    def do_savepoint(connection, name):
        connection.info.setdefault("delayed_savepoints", []).append(name)

    def do_release_savepoint(connection, name):
        if not forget_savepoint(connection, name):
            release(connection, name)

    def do_rollback_to_savepoint(connection, name):
        if not forget_savepoint(connection, name):
            roll_back(connection, name)

    if dialect.name == "postgresql":
        roll_back = roll_back_to_savepoint
        dialect.do_rollback = roll_back_transaction
    dialect.do_savepoint = do_savepoint
    dialect.do_release_savepoint = do_release_savepoint
    dialect.do_rollback_to_savepoint = do_rollback_to_savepoint
    event.listen(engine, "before_cursor_execute", send_savepoints)
    event.listen(engine, "handle_error", name_first_error)
    event.listen(engine, "rollback", lambda connection: connection.info.pop("delayed_savepoints", None))


def forget_savepoint(connection, name):
    """Drop a delayed savepoint and those inside it. Return whether it was delayed."""
    names = connection.info.get("delayed_savepoints", ())
    if name not in names:
        return False
    del names[names.index(name) :]
    return True


def send_savepoints(connection, cursor, statement, *_):
    if (names := connection.info.get("delayed_savepoints")) and not statement.startswith(("SELECT", "PRAGMA")):
        for name in names:
            cursor.execute(f"SAVEPOINT {name}")
        names.clear()


def roll_back_to_savepoint(connection, name):
    execute_around_driver(connection.connection.dbapi_connection, f"ROLLBACK TO SAVEPOINT {name}")


def roll_back_transaction(connection):
    execute_around_driver(connection, "ROLLBACK")


def execute_around_driver(connection, statement):
    result = connection.pgconn.exec_(statement.encode())
    assert result.status == ExecStatus.COMMAND_OK, result.get_error_message()


def name_first_error(failure):
    """Raise an error that names the statement that made a transaction unusable: summaries show only the last error."""
    info = failure.connection.info
    if isinstance(failure.original_exception, InFailedSqlTransaction):
        raise AssertionError(f"An earlier statement failed: {info.get('first_error')}") from failure.original_exception
    info["first_error"] = f"{failure.original_exception!r} in {failure.statement}"
