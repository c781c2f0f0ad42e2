"""The ISO library: the platform's ISOs, and customers' own."""

import re
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Select, false, func, or_, select, true
from sqlalchemy.orm import selectinload

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Account, Hypervisor, Instance, Iso, MediaDownload, Storage
from panel.services.access import Access
from panel.services.crud import ensure_unique_name, update_fields
from panel.services.media import downloads, remote_file
from panel.services.search_kinds import customer_name_search, platform_search, select_by_name

task_kind("media_delete", "File removal")

FILENAME_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,255}")
MAX_OWN_ISOS = 20
MAX_OWN_ISO_BYTES = 32 * 1024**3

DOWNLOADS_LOAD_OPTION = selectinload(Iso.downloads).joinedload(MediaDownload.storage).joinedload(Storage.hypervisor)


def listing(account: Access | Account | None = None, *, search: str | None = None, own: bool = False) -> Select[Iso]:
    """Select ISOs by name. A customer sees the public ones and the account's own."""
    query = select(Iso).options(DOWNLOADS_LOAD_OPTION).order_by(Iso.name, Iso.id)
    if account:
        is_offered = Iso.public & Iso.enabled
        query = query.where(account.visible_rows(Iso) if own else or_(is_offered, account.visible_rows(Iso)))
    if search:
        query = query.where(or_(*(c.icontains(search, autoescape=True) for c in (Iso.name, Iso.filename))))
    return query


def get(iso_id: str, account: Access | Account | None = None, *, own: bool = False) -> Iso:
    iso = session.scalar(listing(account, own=own).where(Iso.id == iso_id))
    if iso is None:
        raise NotFound(message("No such ISO."))
    return iso


def get_chosen(iso_id: str, account: Access | Account | None = None, error_field: str = "iso_id") -> Iso:
    """Return the ISO whose id came from the body's `field`."""
    iso = session.scalar(listing(account).where(Iso.id == iso_id))
    if iso is None:
        raise Invalid(message("The ISO cannot be chosen."), **{error_field: message("No such ISO.")})
    return iso


def create(
    account: Access | Account | None = None,
    *,
    url: str,
    actor: str,
    name: str | None = None,
    filename: str | None = None,
    sha256: str | None = None,
    public: bool = True,
) -> Iso:
    """Add an ISO to the library; without an account it is the platform's. Downloads are started: of a public one on all
    nodes, of a customer's own one on the nodes of the account's instances. Other nodes download it when it is
    mounted."""
    remote_file.ensure_allowed_url(url)
    filename = validate_filename(filename or urlsplit(url).path.rpartition("/")[2])
    if account:
        ensure_one_more(account)
    if name:
        ensure_unique_name(Iso, name, account_id=account and account.id)
    iso = Iso(
        account_id=account and account.id,
        name=name or make_unique_name(filename, account),
        filename=filename,
        url=url,
        sha256=sha256,
        public=public and account is None,
    )
    session.add(iso)
    session.flush()
    for hypervisor_id in session.scalars(
        select_home_hypervisors(account) if account else select_all_hypervisors(iso)
    ).all():
        storage = downloads.find_library_storage(hypervisor_id)
        if storage:
            downloads.start(downloads.get_or_create(iso, storage), actor=actor)
    session.flush()
    session.refresh(iso, ["downloads"])
    return iso


def make_unique_name(filename: str, account: Access | Account | None) -> str:
    """Return a name that no other ISO of the account has, because API clients look them up by name."""
    is_similar = or_(Iso.name == filename, Iso.name.startswith(f"{filename} (", autoescape=True))
    taken_names = set(session.scalars(select(Iso.name).where(is_similar, Iso.account_id == (account and account.id))))
    numbered = (f"{filename[:240]} ({number})" for number in range(2, len(taken_names) + 3))
    return next(name for name in (filename, *numbered) if name not in taken_names)


def validate_filename(filename: str) -> str:
    if not FILENAME_PATTERN.fullmatch(filename):
        sentence = message("May only have letters, digits, dots, underscores and hyphens.")
        raise Invalid(
            message("The file name of the ISO cannot be used."), reason="iso_filename_invalid", filename=sentence
        )
    return filename


def ensure_one_more(account: Access | Account) -> None:
    count = session.scalars(select(func.count()).where(Iso.account_id == account.id)).one()
    if count >= MAX_OWN_ISOS:
        raise Invalid(
            message("An account can have at most {maximum} ISOs. Remove one first.", maximum=MAX_OWN_ISOS),
            reason="limit_reached",
        )


def select_home_hypervisors(account: Access | Account) -> Select[str]:
    """Select the reachable hypervisors of the account's instances."""
    hypervisor_ids = select(Instance.hypervisor_id).where(Instance.account_id == account.id)
    return select(Hypervisor.id).where(Hypervisor.id.in_(hypervisor_ids), Hypervisor.status == "up")


def select_all_hypervisors(iso: Iso) -> Select[str]:
    return (
        select(Hypervisor.id)
        .where(Hypervisor.status == "up", true() if iso.public else false())
        .order_by(Hypervisor.name)
        .limit(downloads.MAX_BACKGROUND_DOWNLOADS)
    )  # the periodic job continues with the others


def get_or_create_by_url(url: str, account: Access | Account, *, actor: str) -> Iso:
    """Return the ISO with this URL: one that the account may choose, else a new one of its own."""
    iso = session.scalar(listing(account).where(Iso.url == url).limit(1))
    return iso or create(account, url=url, actor=actor)


def update(iso: Iso, **changes: Any) -> Iso:
    if "filename" in changes:
        validate_filename(changes["filename"])
    if "name" in changes:
        ensure_unique_name(Iso, changes["name"], exclude=iso, account_id=iso.account_id)
    return update_fields(iso, changes)


def delete(iso: Iso, *, actor: str) -> None:
    """Remove the ISO from the library. Nodes delete their files afterwards."""
    is_mounted = or_(Instance.iso_id == iso.id, Instance.secondary_iso_id == iso.id)
    if session.scalar(select(Instance.id).where(is_mounted).limit(1)):
        raise Conflict(message("The ISO is mounted in a drive. Eject it first."), reason="iso_mounted")
    for download in iso.downloads:
        if download.volume and download.storage:
            jobs.enqueue(
                "media_delete",
                "iso",
                iso,
                lock="light",
                actor=actor,
                hypervisor_id=download.hypervisor_id,
                arguments={"pool": download.storage.name, "volume": download.volume},
            )
    session.delete(iso)
    session.flush()


@customer_name_search("iso", "ISOs", permission="isos.view", position=23)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    return select_by_name(Iso, Iso.name, Iso.filename, search).where(access.visible_rows(Iso))


@platform_search("iso", permission="admin:images:read", position=72)
def select_by_any_name(text: str) -> Select[str, str, str | None]:
    return select_by_name(Iso, Iso.name, Iso.filename, text)
