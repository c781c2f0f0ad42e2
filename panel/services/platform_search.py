"""Search over the whole platform, for operators, in one query."""

from collections.abc import Callable, Iterator
from typing import Any

import panel.services
from panel.core.db import literal_limit
from panel.core.modules import import_modules
from panel.services import search_kinds

import_modules(panel.services)
PLATFORM_KINDS = search_kinds.sort_kinds(search_kinds.PLATFORM_KINDS)
"""What can be found, in the order of the results."""


def search(text: str, limit: int, may: Callable[[str], bool]) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Yield for each kind that `may` allows and that has matches: the kind, and rows of id, label and further text."""
    queries = {kind.name: kind.select(text) for kind in PLATFORM_KINDS.values() if may(kind.permission)}
    first = {name: query.limit(literal_limit(limit)) for name, query in queries.items() if query is not None}
    found = search_kinds.find_named(first)
    for name, rows in found.items():
        if rows:
            yield name, [tuple(row[1:]) for row in rows]
