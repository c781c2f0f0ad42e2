"""What somebody sees first, and what they find: of everything only what they may see."""

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
"""What can be counted and found: who may see it, and the list that it is in."""


def summarize_instances(access):
    """How many instances there are, in which states, and what they cost a month. None to who may not see them."""
    if not access.has_permission("instances.view"):
        return None
    counted = {state: (count, price) for state, count, price in session.execute(instances.select_state_counts(access))}
    return {
        "total": sum(count for count, _ in counted.values()),
        "states": {state: counted[state][0] for state in INSTANCE_STATES if state in counted},
        "price": sum(price for _, price in counted.values()),
    }


def count_running_tasks(access):
    """How many tasks are under way. None to who may not see them."""
    return count_rows(tasks.listing(access, status="open")) if access.has_permission("instances.view") else None


def count_resources(access):
    """How many there are of each kind that the person may see."""
    return {
        kind: count_rows(listing(access))
        for kind, (needed, listing) in SEARCHABLE_KINDS.items()
        if access.has_permission(needed)
    }


def count_rows(query):
    return session.scalar(query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None))


def search(access, text, maximum):
    """For each kind that the person may see the first rows with these words in their names."""
    for kind, (needed, listing) in SEARCHABLE_KINDS.items():
        if access.has_permission(needed):
            try:
                query = listing(access, search=text)
            except Invalid:  # words that only look like the language of a list's search field
                continue
            yield kind, session.scalars(query.limit(maximum)).unique().all()


def describe_row(row):
    """A row's name and what stands beside it."""
    if isinstance(row, SshKey):
        return row.name, row.fingerprint
    if isinstance(row, Project):
        return row.name, row.description or ""
    if hasattr(row, "email"):
        return row.email, row.role.name
    return row.display_name, " · ".join(text for text in (row.hostname, row.ipv4, row.state) if text)
