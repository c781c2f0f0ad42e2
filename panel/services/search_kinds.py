"""The registries of what search finds, and conditions for its queries. Services declare their kinds at their queries.

`position` orders the results, from low to high.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, SQLColumnExpression

ID_PATTERN = re.compile(r"[0-9a-f-]{8,36}", re.IGNORECASE)
ADDRESS_PATTERN = re.compile(r"[0-9a-f]*[.:][0-9a-f.:/]*", re.IGNORECASE)


@dataclass(frozen=True)
class CustomerKind:
    """What customers can count and search."""

    name: str
    plural: str
    permission: str
    position: int
    describe: Callable[[Any], tuple[str, str]]
    """Returns a row's name and its details."""
    select: Callable[..., Select]
    """Selects rows for an access and, optionally, `search`. May raise Invalid for a text that it cannot search for."""


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


def contains_text(column: SQLColumnExpression[Any], text: str) -> ColumnElement[bool]:
    return column.icontains(text, autoescape=True)


def is_id(text: str) -> bool:
    return ID_PATTERN.fullmatch(text) is not None


def is_address(text: str) -> bool:
    """Return whether the text may be the beginning of an IP address."""
    return ADDRESS_PATTERN.fullmatch(text) is not None


def list_networks(text: str) -> list[str]:
    """Return all networks that contain the address, as text; nothing for a text that is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return []
    return [str(ipaddress.ip_network((address, length), strict=False)) for length in range(address.max_prefixlen + 1)]
