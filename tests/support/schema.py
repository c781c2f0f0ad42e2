"""Descriptions of database schemas for comparison, with triggers and index conditions, which Alembic ignores."""

import re

from sqlalchemy import text

SQLITE_QUERY = "select sql from sqlite_master where sql is not null and tbl_name <> 'alembic_version'"

POSTGRESQL_QUERIES = (
    """select table_name, column_name, data_type, character_maximum_length, numeric_precision, numeric_scale,
    is_nullable, column_default from information_schema.columns
    where table_schema = 'public' and table_name <> 'alembic_version'""",
    "select indexdef from pg_indexes where schemaname = 'public' and tablename <> 'alembic_version'",
    """select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'public'::regnamespace and conrelid::regclass::text <> 'alembic_version'""",
    "select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
)


def describe_schema(engine):
    """Return a set of texts. Two databases with equal sets have the same tables, indexes, constraints and triggers."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            return {normalize(statement) for statement in connection.scalars(text(SQLITE_QUERY))}
        return {str(tuple(row)) for query in POSTGRESQL_QUERIES for row in connection.execute(text(query))}


def normalize(statement):
    """Return the statement as it would be before its table was changed: without the quotes of the table's name, with
    the case of actions as models write it, and each added column on a line of its own. The lines are sorted: their
    order does not matter."""
    statement = re.sub(r'^CREATE TABLE "(\w+)"', r"CREATE TABLE \1", statement)
    statement = re.sub(r"(?<= ON DELETE )[A-Z ]+", lambda action: action[0].lower(), statement)
    statement = re.sub(r", (?=\w+ [A-Z])", ",\n", statement)
    first, *lines = [line.strip().rstrip(",") for line in statement.splitlines()]
    return "\n".join([first, *sorted(lines)])
