"""A select for the one row that every request begins with: who is this?

Asked of the driver itself. SQLAlchemy's bookkeeping around such a small question costs several times its answer.
"""

from collections import namedtuple
from functools import cache
from typing import NamedTuple

from panel.core.db import db


class CompiledQuery(NamedTuple):
    """The question in the language of one kind of database."""

    sql: str
    parameter: str
    readers: list
    """For each column what makes a Python value of the driver's, or None."""


class PreparedQuery:
    """Written once for each database. Sees what is committed, in a connection of the pool that it has only for the
    moment."""

    def __init__(self, statement):
        self.statement = statement
        columns = statement.selected_columns
        self.row = namedtuple("Row", [column.key for column in columns])
        self.types = [column.type for column in columns]
        self.written = cache(self.write)

    def write(self, dialect):
        compiled = self.statement.compile(dialect=dialect)
        [parameter] = compiled.params
        readers = [kind.dialect_impl(dialect).result_processor(dialect, None) for kind in self.types]
        return CompiledQuery(str(compiled), parameter, readers)

    def one(self, value):
        """The row for the only parameter, or None."""
        engine = db.engine
        written = self.written(engine.dialect)
        pooled = engine.raw_connection()
        try:
            found = execute(pooled.driver_connection, written, value, engine.dialect.name)
        except engine.dialect.loaded_dbapi.Error as error:
            if engine.dialect.is_disconnect(error, pooled.driver_connection, None):
                pooled.invalidate(error)
                engine.dispose(close=False)  # its other connections were lost with this one
            raise
        finally:
            pooled.close()
        if found is None:
            return None
        pairs = zip(written.readers, found, strict=True)
        return self.row._make([read(each) if read and each is not None else each for read, each in pairs])


def execute(driver, query, value, database):
    if database == "sqlite":
        return driver.execute(query.sql, (value,)).fetchone()
    parameters = {query.parameter: value}
    if driver.info.transaction_status.name != "IDLE":
        return driver.execute(query.sql, parameters).fetchone()
    driver.autocommit = True  # one trip in place of three
    try:
        return driver.execute(query.sql, parameters).fetchone()
    finally:
        driver.autocommit = False
