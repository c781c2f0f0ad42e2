"""What somebody sees first, and what they find: of everything only what they may see."""

from sqlalchemy import func

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Project, SshKey
from panel.schemas.constants import STATES
from panel.services import instances, projects, ssh_keys, tasks, team

KINDS = {
    "instance": ("instances.view", instances.listing),
    "project": ("projects.view", projects.listing),
    "ssh_key": ("ssh_keys.view", ssh_keys.listing),
    "member": ("account.view", team.listing),
}
"""What can be counted and found: who may see it, and the list that it is in."""


def machines(access):
    """How many instances there are, in which states, and what they cost a month. None to who may not see them."""
    if not access.holds("instances.view"):
        return None
    counted = {state: (count, price) for state, count, price in session.execute(instances.by_state(access))}
    return {
        "total": sum(count for count, _ in counted.values()),
        "states": {state: counted[state][0] for state in STATES if state in counted},
        "price": sum(price for _, price in counted.values()),
    }


def running(access):
    """How many tasks are under way. None to who may not see them."""
    return count(tasks.listing(access, status="open")) if access.holds("instances.view") else None


def counts(access):
    """How many there are of each kind that the person may see."""
    return {kind: count(listing(access)) for kind, (needed, listing) in KINDS.items() if access.holds(needed)}


def count(query):
    return session.scalar(query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None))


def find(access, words, most):
    """For each kind that the person may see the first rows with these words in their names."""
    for kind, (needed, listing) in KINDS.items():
        if access.holds(needed):
            try:
                query = listing(access, search=words)
            except Invalid:  # words that only look like the language of a list's search field
                continue
            yield kind, session.scalars(query.limit(most)).unique().all()


def called(row):
    """A row's name and what stands beside it."""
    if isinstance(row, SshKey):
        return row.name, row.fingerprint
    if isinstance(row, Project):
        return row.name, row.description or ""
    if hasattr(row, "email"):
        return row.email, row.role.name
    return row.display_name, " · ".join(text for text in (row.hostname, row.ipv4, row.state) if text)
