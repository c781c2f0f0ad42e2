"""The dashboard and the search: summaries and rows of everything that the person may see."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Select, func

import panel.services
from panel.core.db import literal_limit, session
from panel.core.errors import Invalid
from panel.core.modules import import_modules
from panel.schemas.constants import INSTANCE_STATES
from panel.services import instances, search_kinds, tasks
from panel.services.access import Access

import_modules(panel.services)
SEARCHABLE_KINDS = search_kinds.sort_kinds(search_kinds.CUSTOMER_KINDS)
"""Kinds that can be searched, in the order of the results."""
COUNTED_KINDS = {name: kind for name, kind in SEARCHABLE_KINDS.items() if kind.is_counted}


def summarize_instances(access: Access) -> dict[str, Any] | None:
    """Return how many instances there are, in which states, and what they cost a month; None without the permission."""
    if not access.has_permission("instances.view"):
        return None
    counts = {state: (count, price) for state, count, price in session.execute(instances.select_state_counts(access))}
    return {
        "total": sum(count for count, _ in counts.values()),
        "states": {state: counts[state][0] for state in INSTANCE_STATES if state in counts},
        "price": sum(price for _, price in counts.values()),
    }


def count_running_tasks(access: Access) -> int | None:
    """Return how many tasks are open; None without the permission."""
    return count_rows(tasks.listing(access, status="open")) if access.has_permission("instances.view") else None


def count_resources(access: Access, names: Iterable[str] = COUNTED_KINDS) -> dict[str, int]:
    """Return the number of rows of each of the kinds that the person may see."""
    kinds = {name: COUNTED_KINDS[name] for name in names}
    queries = {name: kind.select(access) for name, kind in kinds.items() if access.has_permission(kind.permission)}
    return {name: count_rows(query) for name, query in queries.items() if query is not None}


def count_rows(query: Select[Any]) -> int:
    count = query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
    return session.scalars(count).one()


def search(access: Access, text: str, maximum: int) -> Iterator[tuple[search_kinds.CustomerKind, Sequence[Any]]]:
    """Yield each kind that the person may see, with the first rows whose names match. The kinds that are found by name
    are found in one query."""
    queries = {kind: query.limit(literal_limit(maximum)) for kind, query in iter_search_queries(access, text)}
    named = search_kinds.find_named({kind.name: query for kind, query in queries.items() if not kind.is_counted})
    for kind, query in queries.items():
        yield kind, session.scalars(query).unique().all() if kind.is_counted else named[kind.name]


def iter_search_queries(access: Access, text: str) -> Iterator[tuple[search_kinds.CustomerKind, Select[Any]]]:
    for kind in SEARCHABLE_KINDS.values():
        if access.has_permission(kind.permission):
            try:
                query = kind.select(access, search=text)
            except Invalid:  # the text is not valid in the instance search language
                continue
            if query is not None:
                yield kind, query
