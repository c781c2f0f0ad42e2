"""Finding migrations."""

from sqlalchemy import select
from sqlalchemy.orm import joinedload

from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Migration

LOAD_OPTIONS = (joinedload(Migration.source), joinedload(Migration.target), joinedload(Migration.task))


def listing(*, status=None, instance_id=None, parent_task_id=None):
    """Newest first."""
    query = select(Migration).options(*LOAD_OPTIONS).order_by(Migration.id.desc())
    wanted = {"status": status, "instance_id": instance_id, "parent_task_id": parent_task_id}
    for name, value in wanted.items():
        if value:
            query = query.where(getattr(Migration, name) == value)
    return query


def get(migration_id):
    found = session.scalar(listing().where(Migration.id == migration_id))
    if found is None:
        raise NotFound("No such migration.")
    return found
