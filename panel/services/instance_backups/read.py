"""Find backups, and protect them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, UnaryExpression, exists, or_, select
from sqlalchemy.orm import joinedload, load_only, selectinload

from panel.core import jobs
from panel.core.db import on_commit, session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import message
from panel.models import Account, BackupCopy, BackupDestination, Instance, InstanceBackup, Task, Volume
from panel.models.tasks import OPEN_STATUSES
from panel.services.access import Access
from panel.services.search_kinds import contains_text, customer_name_search, platform_search

NO_BACKUP_MESSAGE = message("No such backup.")
BEING_DELETED_MESSAGE = message("The backup is being deleted.")

PROTECT_FUNCTION = "worker.tasks.rbs_snapshots.apply_protection"
"""Protects the snapshot on its backup server too, so that prune jobs leave it."""

SORT_COLUMNS: dict[str, tuple[Any, ...]] = {
    "created_at": (InstanceBackup.id,),
    "size": (InstanceBackup.size, InstanceBackup.id),
    "name": (InstanceBackup.name, InstanceBackup.id),
    "rbs_backup_time": (InstanceBackup.rbs_backup_time, InstanceBackup.id),
}
"""Ids sort by age. Backups without a time on a backup server are sorted by it, before or after the others."""


TIMELINE_COLUMNS = (
    "account_id",
    "instance_id",
    "volume_id",
    "name",
    "recorded_name",
    "created_at",
    "status",
    "backup_type",
    "protected",
    "damaged",
    "delete_claimed_at",
)


def select_of_instances(account: Access | Account | None) -> Select[InstanceBackup]:
    return select_backups(account).where(InstanceBackup.volume_id.is_(None))


def select_backups(account: Access | Account | None) -> Select[InstanceBackup]:
    """Select backups, also of volumes, with what their rows show; with an account its own, without those of
    appliances."""
    query = select(InstanceBackup).options(
        joinedload(InstanceBackup.instance).load_only(Instance.display_name, Instance.hostname),
        joinedload(InstanceBackup.volume).load_only(Volume.name, Volume.status),
        joinedload(InstanceBackup.destination),
        selectinload(InstanceBackup.copies).joinedload(BackupCopy.destination),
        joinedload(InstanceBackup.delete_task).load_only(Task.status),
    )
    if account is None:
        return query.options(joinedload(InstanceBackup.account))
    return query.where(*match_visible(account))


def match_visible(account: Access | Account) -> tuple[ColumnElement[bool], ...]:
    """Match the backups that customers see of the account."""
    is_present = InstanceBackup.missing_confirmed_at.is_(None) | match_copied()
    return account.visible_rows(InstanceBackup), InstanceBackup.is_appliance.is_(False), is_present


def match_copied() -> ColumnElement[bool]:
    """Match backups with a complete copy."""
    return exists().where(BackupCopy.backup_id == InstanceBackup.id, BackupCopy.status == "complete")


def listing(
    account: Access | Account | None = None,
    *,
    sort: str = "created_at",
    dir: str = "desc",
    with_volumes: bool = False,
    **filters: Any,
) -> Select[InstanceBackup]:
    """Select the backups that fit the filters of the API, newest first unless sorted otherwise. With `with_volumes`
    also those of volumes."""
    query = select_backups(account) if with_volumes else select_of_instances(account)
    conditions = [CONDITIONS[name](value) for name, value in filters.items()]
    return query.where(*conditions).order_by(*build_order(sort, dir))


def select_timeline(account: Access | Account, **filters: Any) -> Select[InstanceBackup]:
    """Select what a timeline shows of an account's backups of instances, newest first."""
    columns = [getattr(InstanceBackup, name) for name in TIMELINE_COLUMNS]
    instance_columns = Instance.display_name, Instance.group_id, Instance.hypervisor_id
    query = select(InstanceBackup).options(
        load_only(*columns), joinedload(InstanceBackup.instance).load_only(*instance_columns)
    )
    conditions = [CONDITIONS[name](value) for name, value in filters.items()]
    query = query.where(*match_visible(account), InstanceBackup.volume_id.is_(None), *conditions)
    return query.order_by(InstanceBackup.id.desc())


def build_order(sort: str, direction: str) -> list[UnaryExpression[Any]]:
    return [column.asc() if direction == "asc" else column.desc() for column in SORT_COLUMNS[sort]]


def match_text(text: str) -> ColumnElement[bool]:
    columns = (
        InstanceBackup.name,
        InstanceBackup.description,
        InstanceBackup.recorded_name,
        InstanceBackup.recorded_hostname,
    )
    instance_columns = Instance.display_name, Instance.hostname
    return or_(
        *(column.icontains(text, autoescape=True) for column in columns),
        InstanceBackup.instance.has(or_(*(column.icontains(text, autoescape=True) for column in instance_columns))),
    )


def match_verification(result: str) -> ColumnElement[bool]:
    column = InstanceBackup.verification_status
    return column.is_(None) if result == "none" else column == result


def match_set(column: Any, *, is_set: bool) -> ColumnElement[bool]:
    return column.is_not(None) if is_set else column.is_(None)


def match_storage_type(kind: str) -> ColumnElement[bool]:
    destinations = select(BackupDestination.id).where(BackupDestination.storage_type == kind)
    return InstanceBackup.destination_id.in_(destinations)


def match_since(moment: datetime) -> ColumnElement[bool]:
    return InstanceBackup.created_at >= moment


CONDITIONS: Mapping[str, Any] = {
    "search": match_text,
    "instance_id": lambda value: InstanceBackup.instance_id == value,
    "backup_storage_id": lambda value: InstanceBackup.destination_id == value,
    "storage_type": match_storage_type,
    "backup_type": lambda value: InstanceBackup.backup_type == value,
    "created": lambda value: (InstanceBackup.status == "complete").is_(value),
    "verification": match_verification,
    "protected": lambda value: InstanceBackup.protected.is_(value),
    "claim": lambda value: match_set(InstanceBackup.delete_claimed_at, is_set=value == "claimed"),
    "instance_state": lambda value: match_set(InstanceBackup.instance_deleted_at, is_set=value == "deleted"),
    "created_from": match_since,
    "created_to": lambda value: InstanceBackup.created_at <= value,
    "issue": lambda _: InstanceBackup.delete_claimed_at.is_not(None) & InstanceBackup.instance_deleted_at.is_not(None),
}
"""The condition of each filter of the API."""


def get(backup_id: str, account: Access | Account | None = None, *, with_volumes: bool = False) -> InstanceBackup:
    backup = session.scalar(listing(account, with_volumes=with_volumes).where(InstanceBackup.id == backup_id))
    if backup is None:
        raise NotFound(NO_BACKUP_MESSAGE)
    return backup


def get_of_instance(instance: Instance, backup_id: str, account: Access | Account | None = None) -> InstanceBackup:
    """Return a backup of this instance. Raise `backup_not_found` for any other."""
    conditions = InstanceBackup.id == backup_id, InstanceBackup.instance_id == instance.id
    backup = session.scalar(select_of_instances(account).where(*conditions))
    if backup is None:
        raise NotFound(NO_BACKUP_MESSAGE, reason="backup_not_found")
    return backup


def find_by_id(backup_id: str, *, lock: bool = False) -> InstanceBackup | None:
    """Return the backup or None, read again, for workers."""
    query = select(InstanceBackup).where(InstanceBackup.id == backup_id).execution_options(populate_existing=True)
    return session.scalar(query.with_for_update(key_share=True) if lock else query)


def match_resource(backup: InstanceBackup) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for backups of the same instance or volume."""
    is_same_volume = InstanceBackup.volume_id.is_not_distinct_from(backup.volume_id)
    return InstanceBackup.instance_id == backup.instance_id, is_same_volume


def get_chain(backup: InstanceBackup) -> list[InstanceBackup]:
    """Return the backups whose content it reused, the nearest first, as far as they exist."""
    conditions = *match_resource(backup), InstanceBackup.account_id == backup.account_id
    others = {other.id: other for other in session.scalars(select(InstanceBackup).where(*conditions))}
    chain: list[InstanceBackup] = []
    parent = others.get(backup.parent_backup_id or "")
    while parent is not None and parent not in chain:
        chain.append(parent)
        parent = others.get(parent.parent_backup_id or "")
    return chain


def map_open_tasks(backups: Iterable[InstanceBackup]) -> dict[str, Task]:
    """Return the tasks that create these backups, by the backup's id."""
    instance_ids = {backup.instance_id for backup in backups if backup.status == "creating"}
    if not instance_ids:
        return {}
    conditions = Task.resource_id.in_(instance_ids), Task.kind == "backup_create", Task.status.in_(OPEN_STATUSES)
    return {task.arguments["backup_id"]: task for task in session.scalars(select(Task).where(*conditions))}


def set_protected(backup: InstanceBackup, protected: bool) -> InstanceBackup:
    """Protect the backup from deletion, or end that. Setting the present value again changes nothing."""
    if protected and backup.is_claimed:
        raise Conflict(BEING_DELETED_MESSAGE, reason="backup_being_deleted")
    if backup.protected != protected and backup.is_on_rbs and backup.created:
        backup_id = backup.id
        on_commit(lambda: jobs.enqueue_call(PROTECT_FUNCTION, backup_id))
    backup.protected = protected
    session.flush()
    return backup


@customer_name_search("backup", "backups", permission="instances.view", position=17)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    return select_by_any_name(search).where(access.visible_rows(InstanceBackup))


@platform_search("backup", permission="admin:instances:read", position=17)
def select_by_any_name(text: str) -> Select[str, str, str | None]:
    """Select by the backup's name or id, or the instance's name when the backup was taken."""
    names = (InstanceBackup.name, InstanceBackup.recorded_name)
    conditions = [contains_text(column, text) for column in names] + [InstanceBackup.id == text.lower()]
    query = select(InstanceBackup.id, InstanceBackup.name.label("name"), InstanceBackup.recorded_name.label("detail"))
    return query.where(or_(*conditions)).order_by(InstanceBackup.id.desc())
