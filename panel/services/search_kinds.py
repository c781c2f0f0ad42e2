"""The registries of what search finds, and conditions for its queries. Services declare their kinds at their queries.

`position` orders the results, from low to high.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, SQLColumnExpression, func, literal, or_, select, union_all
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType, String

from panel.core.db import session

ID_PATTERN = re.compile(r"[0-9a-f-]{8,36}", re.IGNORECASE)
FIRST_ID, LAST_ID = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
ADDRESS_PATTERN = re.compile(r"[0-9a-f]*[.:][0-9a-f.:/]*", re.IGNORECASE)

ONLY_ADDRESS_PATTERN = re.compile(r"[0-9]+\.[0-9./]*|[0-9a-f]*:[0-9a-f.:/]*", re.IGNORECASE)


@dataclass(frozen=True)
class CustomerKind:
    """What customers can count and search."""

    name: str
    plural: str
    permission: str
    position: int
    describe: Callable[[Any], tuple[str, str]]
    """Returns a row's name and its details."""
    select: Callable[..., Select | None]
    """Selects rows for an access and, optionally, `search`. May raise Invalid for a text that it cannot search for, or
    return None when the text cannot name such a row."""
    is_counted: bool = True
    """Whether the dashboard counts the rows. `select` is then called without `search`, too."""


@dataclass(frozen=True)
class PlatformKind:
    """What operators can search."""

    name: str
    permission: str
    position: int
    select: Callable[[str], Select | None]
    """Selects id, label and further text for a text, or returns None when the text cannot name such a row."""


Selector = TypeVar("Selector", bound=Callable[..., Any])
Kind = TypeVar("Kind", CustomerKind, PlatformKind)

CUSTOMER_KINDS: dict[str, CustomerKind] = {}
PLATFORM_KINDS: dict[str, PlatformKind] = {}


def customer_search(
    name: str, plural: str, *, permission: str, position: int, describe: Callable[[Any], tuple[str, str]]
) -> Callable[[Selector], Selector]:
    """Register the decorated function as what selects this kind for customers."""

    def register(select: Selector) -> Selector:
        CUSTOMER_KINDS[name] = CustomerKind(name, plural, permission, position, describe, select)
        return select

    return register


def customer_name_search(name: str, plural: str, *, permission: str, position: int) -> Callable[[Selector], Selector]:
    """Register the decorated function, which selects `id`, `name` and `detail` of rows for an access and a text. The
    kind is found, but not counted."""

    def register(select: Selector) -> Selector:
        CUSTOMER_KINDS[name] = CustomerKind(
            name, plural, permission, position, describe_columns, select, is_counted=False
        )
        return select

    return register


def describe_columns(row: Any) -> tuple[str, str]:
    return row.name, row.detail or ""


def platform_search(name: str, *, permission: str, position: int) -> Callable[[Selector], Selector]:
    """Register the decorated function as what selects this kind for operators."""

    def register(select: Selector) -> Selector:
        PLATFORM_KINDS[name] = PlatformKind(name, permission, position, select)
        return select

    return register


def sort_kinds(kinds: Mapping[str, Kind]) -> dict[str, Kind]:
    """Return the registry in the order of the results."""
    return dict(sorted(kinds.items(), key=lambda item: item[1].position))


def starts_with(column: SQLColumnExpression[Any], text: str) -> ColumnElement[bool]:
    return column.startswith(text, autoescape=True)


class HasPrefix(FunctionElement[Any]):
    """Whether a text column begins with a text, letter case included. In contrast to LIKE an index serves it: on SQLite
    each, on PostgreSQL one with `varchar_pattern_ops`."""

    name = "has_prefix"
    type = NullType()  # SQLAlchemy compares a boolean function with 1 on SQLite, which prevents the index
    inherit_cache = True

    def __init__(self, column: SQLColumnExpression[Any], text: str):
        escaped_text = re.sub(r"([\\%_])", r"\\\1", text)
        super().__init__(column, text, text + "\U0010ffff", escaped_text + "%")


@compiles(HasPrefix)
def compile_prefix(element: HasPrefix, compiler: Any, **options: Any) -> str:
    column, _, _, pattern = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({column} LIKE {pattern})"


@compiles(HasPrefix, "sqlite")
def compile_prefix_for_sqlite(element: HasPrefix, compiler: Any, **options: Any) -> str:
    column, first, end, _ = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({column} >= {first} AND {column} < {end})"


class AsciiLower(FunctionElement[str]):
    """The column with the letters A to Z in lower case, which is enough to find a text without other letters. On
    PostgreSQL it takes a third of the time of `lower`."""

    name = "ascii_lower"
    type = String()
    inherit_cache = True


@compiles(AsciiLower)
def compile_lower(element: AsciiLower, compiler: Any, **options: Any) -> str:
    return f"lower({compiler.process(element.clauses, **options)})"


@compiles(AsciiLower, "postgresql")
def compile_lower_for_postgresql(element: AsciiLower, compiler: Any, **options: Any) -> str:
    return f'lower(({compiler.process(element.clauses, **options)}) COLLATE "C")'


def id_starts_with(column: SQLColumnExpression[Any], text: str) -> ColumnElement[bool]:
    """Return the condition that an id begins with the text, as a range that the index of the ids serves on every
    database. `is_id(text)` must be true."""
    text = text.lower()
    first, last = (text + bound[len(text) :] for bound in (FIRST_ID, LAST_ID))
    return column.between(first, last)


def contains_text(column: SQLColumnExpression[Any], text: str) -> ColumnElement[bool]:
    """Return whether the column contains the text, in whatever letter case. PostgreSQL's ILIKE takes twice as long."""
    escaped_text = re.sub(r"([/%_])", r"/\1", text)
    if text.isascii():
        return AsciiLower(column).like(f"%{escaped_text.lower()}%", escape="/")
    return func.lower(column).like(func.lower(f"%{escaped_text}%"), escape="/")


def select_by_name(model: Any, name: Any, detail: Any, text: str) -> Select[str, str, str | None]:
    """Select `id`, `name` and `detail` of the rows with the text in their name, or with this id."""
    query = select(model.id, name.label("name"), detail.label("detail"))
    return query.where(or_(contains_text(name, text), model.id == text.lower())).order_by(name, model.id)


def is_id(text: str) -> bool:
    return ID_PATTERN.fullmatch(text) is not None


def is_address(text: str) -> bool:
    """Return whether the text may be the beginning of an IP address."""
    return ADDRESS_PATTERN.fullmatch(text) is not None


def is_only_address(text: str) -> bool:
    """Return whether the text is the beginning of an IP address and hardly part of a name."""
    return ONLY_ADDRESS_PATTERN.fullmatch(text) is not None


def list_networks(text: str) -> list[str]:
    """Return all networks that contain the address, as text; nothing for a text that is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return []
    return [str(ipaddress.ip_network((address, length), strict=False)) for length in range(address.max_prefixlen + 1)]


def find_named(queries: Mapping[str, Select[Any]]) -> dict[str, list[Any]]:
    """Return the rows of selects of `id`, `name` and `detail`, by the same keys, in their order. One query: databases
    answer with the parts of a UNION ALL one after the other."""
    rows: dict[str, list[Any]] = {key: [] for key in queries}
    parts = [select(literal(key).label("kind"), *query.subquery().c) for key, query in queries.items()]
    for row in session.execute(union_all(*parts)) if parts else ():
        rows[row.kind].append(row)
    return rows
