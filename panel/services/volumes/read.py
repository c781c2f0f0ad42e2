"""Find volumes. Volumes that are being deleted are hidden."""

from sqlalchemy import Select, select
from sqlalchemy.orm import joinedload, selectinload

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Account, InstanceBackup, Task, Volume, VolumeSnapshot
from panel.services.access import Access
from panel.services.search_kinds import contains_text, customer_name_search, platform_search, select_by_name

LOAD_OPTIONS = (
    joinedload(Volume.group),
    joinedload(Volume.plan),
    joinedload(Volume.instance),
    joinedload(Volume.account),
    joinedload(Volume.latest_task).load_only(Task.kind, Task.status),
    selectinload(Volume.snapshots),
    selectinload(Volume.backups).options(
        joinedload(InstanceBackup.volume).load_only(Volume.name, Volume.status),
        joinedload(InstanceBackup.delete_task).load_only(Task.status),
        selectinload(InstanceBackup.copies),
    ),
)


def listing(
    account: Access | Account | None = None,
    *,
    search: str | None = None,
    project_id: str | None = None,
    deleting: bool = False,
) -> Select[Volume]:
    """Select volumes, newest first; with an account only its own, with `deleting` also those being deleted."""
    query = select(Volume).options(*LOAD_OPTIONS).order_by(Volume.id.desc())
    if not deleting:
        query = query.where(Volume.status != "deleting")
    if account:
        query = query.where(account.visible_rows(Volume))
    if project_id:
        query = query.where(Volume.project_id == project_id)
    return query.where(Volume.name.icontains(search, autoescape=True)) if search else query


def get(volume_id: str, account: Access | Account | None = None) -> Volume:
    volume = session.scalar(listing(account).where(Volume.id == volume_id))
    if volume is None:
        raise NotFound(message("No such volume."))
    return volume


def find_by_id(volume_id: str) -> Volume | None:
    """Return the volume or None, read again, also one that is being deleted; for workers."""
    return session.scalar(select(Volume).where(Volume.id == volume_id).execution_options(populate_existing=True))


def find_snapshot_by_id(snapshot_id: str) -> VolumeSnapshot | None:
    return session.scalar(
        select(VolumeSnapshot).where(VolumeSnapshot.id == snapshot_id).execution_options(populate_existing=True)
    )


@customer_name_search("volume", "volumes", permission="volumes.view", position=16)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    query = select_by_name(Volume, Volume.name, Volume.status, search)
    return query.where(access.visible_rows(Volume), Volume.status != "deleting")


@platform_search("volume", permission="admin:volumes:read", position=16)
def select_by_any_name(text: str) -> Select[str, str, str | None]:
    """Select by name, id or owner."""
    query = select(Volume.id, Volume.name, Account.email).join(Account, Account.id == Volume.account_id)
    names = contains_text(Volume.name, text) | contains_text(Account.email, text)
    return query.where(names | (Volume.id == text.lower()), Volume.status != "deleting").order_by(Volume.id.desc())
