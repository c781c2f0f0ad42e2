"""The dashboard and the search: summaries and rows of everything that the person may see."""

from sqlalchemy import func

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Project, SshKey
from panel.schemas.constants import INSTANCE_STATES
from panel.services import instances, projects, ssh_keys, tasks, team

SEARCHABLE_KINDS = {
    "instance": ("instances.view", instances.listing),
    "project": ("projects.view", projects.listing),
    "ssh_key": ("ssh_keys.view", ssh_keys.listing),
    "member": ("account.view", team.listing),
}
"""Kinds that can be counted and searched: the permission that is needed, and the query."""


def summarize_instances(access):
    """Return how many instances there are, in which states, and what they cost a month; None without the permission."""
    if not access.has_permission("instances.view"):
        return None
    counts = {state: (count, price) for state, count, price in session.execute(instances.select_state_counts(access))}
    return {
        "total": sum(count for count, _ in counts.values()),
        "states": {state: counts[state][0] for state in INSTANCE_STATES if state in counts},
        "price": sum(price for _, price in counts.values()),
    }


def count_running_tasks(access):
    """Return how many tasks are open; None without the permission."""
    return count_rows(tasks.listing(access, status="open")) if access.has_permission("instances.view") else None


def count_resources(access):
    """Return the number of rows of each kind that the person may see."""
    return {
        kind: count_rows(listing(access))
        for kind, (needed, listing) in SEARCHABLE_KINDS.items()
        if access.has_permission(needed)
    }


def count_rows(query):
    return session.scalar(query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None))


def search(access, text, maximum):
    """Yield each kind that the person may see, with the first rows whose names match."""
    for kind, (needed, listing) in SEARCHABLE_KINDS.items():
        if access.has_permission(needed):
            try:
                query = listing(access, search=text)
            except Invalid:  # the text is not valid in the instance search language
                continue
            yield kind, session.scalars(query.limit(maximum)).unique().all()


def describe_row(row):
    """Return a row's name and its details."""
    if isinstance(row, SshKey):
        return row.name, row.fingerprint
    if isinstance(row, Project):
        return row.name, row.description or ""
    if hasattr(row, "email"):
        return row.email, row.role.name
    return row.display_name, " · ".join(text for text in (row.hostname, row.ipv4, row.state) if text)
