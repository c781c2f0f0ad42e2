"""Find migrations."""

from sqlalchemy import Select, select
from sqlalchemy.orm import joinedload

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Migration

LOAD_OPTIONS = (joinedload(Migration.source), joinedload(Migration.target), joinedload(Migration.task))


def listing(
    *, status: str | None = None, instance_id: str | None = None, parent_task_id: str | None = None
) -> Select[Migration]:
    """Select migrations, newest first."""
    query = select(Migration).options(*LOAD_OPTIONS).order_by(Migration.id.desc())
    filters = {"status": status, "instance_id": instance_id, "parent_task_id": parent_task_id}
    for name, value in filters.items():
        if value:
            query = query.where(getattr(Migration, name) == value)
    return query


def get(migration_id: str) -> Migration:
    migration = session.scalar(listing().where(Migration.id == migration_id))
    if migration is None:
        raise NotFound(message("No such migration."))
    return migration
