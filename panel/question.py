"""A select for the one row that every request begins with: who is this?

Asked of the driver itself. SQLAlchemy's bookkeeping around such a small question costs several times its answer.
"""

from collections import namedtuple
from functools import cached_property

from psycopg.pq import TransactionStatus

from panel.db import db


class Question:
    """Compiled once. Sees what is committed, in a connection of the pool that it has only for the moment."""

    def __init__(self, statement):
        self.statement = statement
        columns = statement.selected_columns
        self.row = namedtuple("Row", [column.key for column in columns])
        self.types = [column.type for column in columns]

    @cached_property
    def compiled(self):
        return self.statement.compile(dialect=db.engine.dialect)

    @cached_property
    def sql(self):
        return str(self.compiled)

    @cached_property
    def parameter(self):
        [name] = self.compiled.params
        return name

    @cached_property
    def readers(self):
        """For each column what makes a Python value of the driver's, or None."""
        dialect = db.engine.dialect
        return [kind.dialect_impl(dialect).result_processor(dialect, None) for kind in self.types]

    def one(self, value):
        """The row for the only parameter, or None."""
        pooled = db.engine.raw_connection()
        try:
            found = self.ask(pooled.driver_connection, value)
        finally:
            pooled.close()
        if found is None:
            return None
        pairs = zip(self.readers, found, strict=True)
        return self.row._make([read(each) if read and each is not None else each for read, each in pairs])

    def ask(self, driver, value):
        if db.engine.dialect.name == "sqlite":
            return driver.execute(self.sql, (value,)).fetchone()
        parameters = {self.parameter: value}
        if driver.info.transaction_status != TransactionStatus.IDLE:
            return driver.execute(self.sql, parameters).fetchone()
        driver.autocommit = True  # one trip in place of three
        try:
            return driver.execute(self.sql, parameters).fetchone()
        finally:
            driver.autocommit = False
