"""Where backups are stored: destinations, and the repository of each account in them.

Those for backups of the installation itself appear nowhere else: their purpose has to be asked for."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, exists, func, or_, select
from sqlalchemy import delete as delete_rows
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased, joinedload, selectinload

from panel.core import jobs
from panel.core.db import on_commit, session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import (
    BackupCopy,
    BackupDestination,
    BackupPolicy,
    BackupRepository,
    Hypervisor,
    InstallationBackup,
    InstallationBackupSettings,
    InstanceBackup,
)
from panel.models.backup_destinations import INSTALLATION_BACKUPS, INSTANCE_BACKUPS, destination_hypervisors
from panel.services.backup_destination_settings import merge_settings
from panel.services.crud import ensure_unique_name, get_all_or_422, get_or_404, update_fields
from panel.services.search_kinds import platform_search, select_by_name

ARCHIVE_FOLDER = "installation"
"""Folder in a destination with archives of the installation."""

CHECK_FUNCTION = "worker.tasks.backup_destinations.check"
NOT_FOUND_MESSAGE = message("No such backup destination.")
IN_USE_MESSAGE = message("Backups are stored there. Delete them first.")
CHOSEN_MESSAGE = message("Backup plans or jobs store their backups there. Change them first.")
COPY_TARGET_MESSAGE = message("Backups of {name} are copied there. Choose another destination for these copies first.")


class DestinationContents(NamedTuple):
    """What a destination has: accounts, backups, copies of backups, and the bytes that these have added."""

    repositories: int = 0
    backups: int = 0
    size: int = 0
    copies: int = 0


def listing(search: str = "", *, purpose: str = INSTANCE_BACKUPS) -> Select[BackupDestination]:
    query = select(BackupDestination).options(
        selectinload(BackupDestination.hypervisors), joinedload(BackupDestination.copy_to)
    )
    query = query.where(BackupDestination.purpose == purpose)
    if search:
        query = query.where(BackupDestination.name.icontains(search, autoescape=True))
    return query.order_by(BackupDestination.name, BackupDestination.id)


def select_names(*, purpose: str = INSTANCE_BACKUPS) -> Select[str, str]:
    """Select the id and name of each destination, for a choice field."""
    query = select(BackupDestination.id, BackupDestination.name).where(BackupDestination.purpose == purpose)
    return query.order_by(BackupDestination.name)


def select_copy_targets(destination: BackupDestination | None) -> Select[str, str]:
    """Select the id and name of each destination to which backups of this one (None: a new one) can be copied."""
    query = select_names().where(BackupDestination.storage_type != "rbs")
    return query.where(BackupDestination.id != destination.id) if destination else query


def select_unavailable() -> Select[BackupDestination]:
    """Select the enabled destinations, of any purpose, that workers cannot use."""
    conditions = BackupDestination.enabled, BackupDestination.status == "unavailable"
    return select(BackupDestination).where(*conditions).order_by(BackupDestination.name)


def count_contents(destination_ids: Iterable[str]) -> dict[str, DestinationContents]:
    """Return what each of the destinations has, by id."""
    ids = list(destination_ids)
    repository_id = BackupRepository.destination_id
    accounts = func.count(BackupRepository.account_id.distinct())
    repositories = select(repository_id, accounts).where(repository_id.in_(ids)).group_by(repository_id)
    counts = dict(session.execute(repositories).all())
    backups, copies = sum_sizes(InstanceBackup, ids), sum_sizes(BackupCopy, ids)
    contents = {}
    for row_id in ids:
        (backup_count, backup_size), (copy_count, copy_size) = backups.get(row_id, (0, 0)), copies.get(row_id, (0, 0))
        sizes = backup_size + copy_size, copy_count
        contents[row_id] = DestinationContents(counts.get(row_id, 0), backup_count, *sizes)
    return contents


def sum_sizes(model: type[InstanceBackup] | type[BackupCopy], ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the number of rows in each of the destinations, and the bytes that they have added."""
    column = model.destination_id
    sums = select(column, func.count(), func.sum(model.size)).where(column.in_(ids)).group_by(column)
    return {row_id: (count, int(size)) for row_id, count, size in session.execute(sums)}


def select_for_hypervisor(hypervisor: Hypervisor) -> Select[BackupDestination]:
    """Select the destinations that backups of this hypervisor may use, its own first, then the oldest."""
    links = destination_hypervisors.c
    is_assigned = exists().where(links.destination_id == BackupDestination.id, links.hypervisor_id == hypervisor.id)
    query = select(BackupDestination).options(selectinload(BackupDestination.hypervisors))
    query = query.where(BackupDestination.purpose == INSTANCE_BACKUPS)
    query = query.where(or_(BackupDestination.all_hypervisors, is_assigned))
    return query.order_by(BackupDestination.all_hypervisors, BackupDestination.id)


def select_default_for_hypervisor(hypervisor: Hypervisor) -> Select[BackupDestination]:
    """Select the enabled destinations to which backups of this hypervisor go unless another one is chosen, the first
    of them first. One that has copies of other destinations' backups is left out, unless its own backups are copied too
    or it was assigned to the hypervisor."""
    source = aliased(BackupDestination)
    has_copies = exists().where(source.copy_to_id == BackupDestination.id)
    is_default = or_(~BackupDestination.all_hypervisors, BackupDestination.copy_to_id.is_not(None), ~has_copies)
    return select_for_hypervisor(hypervisor).where(BackupDestination.enabled, is_default)


def find_for_hypervisor(hypervisor: Hypervisor) -> BackupDestination | None:
    """Return the destination of new backups of this hypervisor, or None."""
    return session.scalar(select_default_for_hypervisor(hypervisor).limit(1))


def get(
    destination_id: str | None, error_field: str | None = None, *, purpose: str = INSTANCE_BACKUPS
) -> BackupDestination:
    destination = get_or_404(BackupDestination, destination_id, NOT_FOUND_MESSAGE, error_field)
    if destination.purpose != purpose:
        return get_or_404(BackupDestination, None, NOT_FOUND_MESSAGE, error_field)
    return destination


def create(
    *,
    name: str,
    storage_type: str,
    config: dict[str, Any],
    hypervisor_ids: Sequence[str] = (),
    purpose: str = INSTANCE_BACKUPS,
    **values: Any,
) -> BackupDestination:
    """Add a destination. A worker checks it at once."""
    ensure_unique_name(BackupDestination, name)
    if values.get("copy_to_id"):
        ensure_copies_possible(None, storage_type, get(values["copy_to_id"], "copy_to_id"))
    destination = BackupDestination(
        name=name,
        storage_type=storage_type,
        config=merge_settings(storage_type, {}, config),
        hypervisors=get_hypervisors(hypervisor_ids),
        all_hypervisors=purpose == INSTANCE_BACKUPS and not hypervisor_ids,
        purpose=purpose,
        **values,
    )
    session.add(destination)
    session.flush()
    check_later(destination)
    return destination


def update(destination: BackupDestination, **changes: Any) -> BackupDestination:
    """Change a destination. With other settings a worker checks it again."""
    if "name" in changes:
        ensure_unique_name(BackupDestination, changes["name"], exclude=destination)
    if "hypervisor_ids" in changes:
        changes["hypervisors"] = get_hypervisors(changes.pop("hypervisor_ids"))
        changes["all_hypervisors"] = not changes["hypervisors"]
    storage_type = changes.get("storage_type", destination.storage_type)
    if copy_to_id := changes.get("copy_to_id", destination.copy_to_id):
        ensure_copies_possible(destination, storage_type, get(copy_to_id, "copy_to_id"))
    if storage_type == "rbs" and (source := find_copied_destination(destination)):
        sentence = COPY_TARGET_MESSAGE.format(name=source.name)
        raise Invalid(sentence, storage_type=sentence)
    if "config" in changes or storage_type != destination.storage_type:
        current = destination.config if storage_type == destination.storage_type else {}
        changes["config"] = merge_settings(storage_type, current, changes.get("config", {}))
        changes |= {"status": "unknown", "status_detail": None, "check_steps": []}
        check_later(destination)
    return update_fields(destination, changes)


def ensure_copies_possible(
    destination: BackupDestination | None, storage_type: str, copy_to: BackupDestination
) -> None:
    """Raise Invalid unless backups of the destination (None: a new one), of this kind, can be copied there."""
    if copy_to is destination:
        sentence = message("Choose another destination than this one.")
        raise Invalid(sentence, copy_to_id=sentence)
    if "rbs" in (storage_type, copy_to.storage_type):
        sentence = message("Backups cannot be copied to or from a Proxmox Backup Server. Set up a sync job there.")
        raise Invalid(sentence, copy_to_id=sentence)


def find_copied_destination(destination: BackupDestination) -> BackupDestination | None:
    """Return a destination whose backups are copied to this one, or None."""
    query = select(BackupDestination).where(BackupDestination.copy_to_id == destination.id)
    return session.scalar(query.order_by(BackupDestination.name).limit(1))


def get_hypervisors(ids: Sequence[str]) -> list[Hypervisor]:
    return get_all_or_422(Hypervisor, ids, message("No such hypervisor."), "hypervisor_ids")


def delete(destination: BackupDestination) -> None:
    """Delete a destination without backups, and the keys of its repositories. Nothing in its storage is deleted."""
    for model in (InstanceBackup, BackupCopy, InstallationBackup):
        if session.scalar(select(model.id).where(model.destination_id == destination.id).limit(1)):
            raise Conflict(IN_USE_MESSAGE, reason="destination_in_use")
    settings_id = select(InstallationBackupSettings.id).where(
        InstallationBackupSettings.destination_id == destination.id
    )
    if session.scalar(settings_id):
        sentence = message("Backups of the installation are stored there. Choose another destination first.")
        raise Conflict(sentence, reason="destination_in_use")
    if session.scalar(select(BackupPolicy.id).where(BackupPolicy.destination_id == destination.id).limit(1)):
        raise Conflict(CHOSEN_MESSAGE, reason="destination_in_use")
    if source := find_copied_destination(destination):
        raise Conflict(COPY_TARGET_MESSAGE.format(name=source.name), reason="destination_in_use")
    try:
        with session.begin_nested():
            session.execute(delete_rows(BackupRepository).where(BackupRepository.destination_id == destination.id))
            session.delete(destination)
    except IntegrityError:  # a backup was requested in the meantime
        raise Conflict(IN_USE_MESSAGE, reason="destination_in_use") from None


def check_later(destination: BackupDestination) -> None:
    """Have a worker check the destination after the commit."""
    destination_id = destination.id
    on_commit(lambda: jobs.enqueue_call(CHECK_FUNCTION, destination_id))


def record_check(
    destination: BackupDestination,
    steps: Iterable[dict[str, Any]],
    *,
    at: datetime,
    capacity: int | None = None,
    free: int | None = None,
) -> None:
    """Record what a worker found."""
    destination.check_steps, destination.checked_at = list(steps), at
    failed = next((step for step in destination.check_steps if not step["success"]), None)
    destination.status = "unavailable" if failed else "available"
    destination.status_detail = failed["message"] if failed else None
    destination.capacity, destination.free = capacity, free


def find_initialized_repository(destination: BackupDestination) -> str | None:
    """Return the folder of a repository, or of the installation's archives, that the destination should have, or
    None."""
    if destination.purpose == INSTALLATION_BACKUPS:
        return ARCHIVE_FOLDER if has_archives(destination) else None
    conditions = BackupRepository.destination_id == destination.id, BackupRepository.initialized_at.is_not(None)
    return session.scalar(select(BackupRepository.id).where(*conditions).limit(1))


def has_archives(destination: BackupDestination) -> bool:
    """Return whether archives of the installation were stored there."""
    conditions = InstallationBackup.destination_id == destination.id, InstallationBackup.archive.is_not(None)
    return session.scalar(select(InstallationBackup.id).where(*conditions).limit(1)) is not None


@platform_search("backup_destination", permission="admin:hypervisors:read", position=74)
def select_by_any_name(text: str) -> Select[str, str, str | None]:
    query = select_by_name(BackupDestination, BackupDestination.name, BackupDestination.storage_type, text)
    return query.where(BackupDestination.purpose == INSTANCE_BACKUPS)
