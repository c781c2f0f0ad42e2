"""Prepared single-row selects, such as the token lookup at the start of every API request.

They run on the database driver directly: the overhead of SQLAlchemy is several times the cost of such a small query.
"""

from collections import namedtuple
from functools import cache
from typing import NamedTuple

from panel.core.db import db


class CompiledQuery(NamedTuple):
    """The SQL of a query for one kind of database."""

    sql: str
    parameter: str
    readers: list
    """For each column a function that converts the driver's value, or None."""


class PreparedQuery:
    """A select with one parameter, compiled once for each dialect. It runs on a connection of the pool outside the
    session, so it sees committed data only."""

    def __init__(self, statement):
        self.statement = statement
        columns = statement.selected_columns
        self.row = namedtuple("Row", [column.key for column in columns])
        self.types = [column.type for column in columns]
        self.compile_cached = cache(self.compile)

    def compile(self, dialect):
        compiled = self.statement.compile(dialect=dialect)
        [parameter] = compiled.params
        readers = [kind.dialect_impl(dialect).result_processor(dialect, None) for kind in self.types]
        return CompiledQuery(str(compiled), parameter, readers)

    def one(self, value):
        """Return the row for the value of the parameter as a named tuple, or None."""
        engine = db.engine
        query = self.compile_cached(engine.dialect)
        pooled = engine.raw_connection()
        try:
            values = execute(pooled.driver_connection, query, value, engine.dialect.name)
        except engine.dialect.loaded_dbapi.Error as error:
            if engine.dialect.is_disconnect(error, pooled.driver_connection, None):
                pooled.invalidate(error)
                engine.dispose(close=False)  # the pool's other connections are lost too
            raise
        finally:
            pooled.close()
        if values is None:
            return None
        pairs = zip(query.readers, values, strict=True)
        return self.row._make([read(raw) if read and raw is not None else raw for read, raw in pairs])


def execute(driver, query, value, database):
    if database == "sqlite":
        return driver.execute(query.sql, (value,)).fetchone()
    parameters = {query.parameter: value}
    if driver.info.transaction_status.name != "IDLE":
        return driver.execute(query.sql, parameters).fetchone()
    driver.autocommit = True  # one round trip instead of three
    try:
        return driver.execute(query.sql, parameters).fetchone()
    finally:
        driver.autocommit = False
