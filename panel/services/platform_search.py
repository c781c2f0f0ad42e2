"""Search over the whole platform, for operators: a fixed number of queries, each with a limit."""

from collections.abc import Callable, Iterator
from typing import Any

import panel.services
from panel.core.db import session
from panel.core.modules import import_modules
from panel.services import search_kinds

import_modules(panel.services)
PLATFORM_KINDS = search_kinds.sort_kinds(search_kinds.PLATFORM_KINDS)
"""What can be found, in the order of the results."""


def search(text: str, limit: int, may: Callable[[str], bool]) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Yield for each kind that `may` allows and that has matches: the kind, and rows of id, label and further text."""
    for kind in PLATFORM_KINDS.values():
        query = kind.select(text) if may(kind.permission) else None
        rows = session.execute(query.limit(limit)).all() if query is not None else []
        if rows:
            yield kind.name, [tuple(row) for row in rows]
