"""The library of ISOs: the platform's, and customers' own."""

import re
from urllib.parse import urlsplit

from sqlalchemy import func, or_, select
from sqlalchemy.orm import selectinload

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.models import Hypervisor, Instance, Iso, MediaDownload, Storage
from panel.services.crud import ensure_unique_name, update_fields
from panel.services.media import downloads, remote_file

FILENAME_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,255}")
MAX_OWN_ISOS = 20
MAX_OWN_ISO_BYTES = 32 * 1024**3

DOWNLOADS_LOAD_OPTION = selectinload(Iso.downloads).joinedload(MediaDownload.storage).joinedload(Storage.hypervisor)


def listing(account=None, *, search=None, own=False):
    """By name. A customer sees the public ones and those of the account."""
    query = select(Iso).options(DOWNLOADS_LOAD_OPTION).order_by(Iso.name, Iso.id)
    if account:
        offered = Iso.public & Iso.enabled
        query = query.where(account.visible_rows(Iso) if own else or_(offered, account.visible_rows(Iso)))
    if search:
        query = query.where(or_(*(c.icontains(search, autoescape=True) for c in (Iso.name, Iso.filename))))
    return query


def get(iso_id, account=None, *, own=False):
    found = session.scalar(listing(account, own=own).where(Iso.id == iso_id))
    if found is None:
        raise NotFound("No such ISO.")
    return found


def get_chosen(iso_id, account=None, field="iso_id"):
    """The ISO that a body names."""
    found = session.scalar(listing(account).where(Iso.id == iso_id))
    if found is None:
        raise Invalid("The ISO cannot be chosen.", **{field: "No such ISO."})
    return found


def create(account=None, *, url, actor, name=None, filename=None, sha256=None, public=True):
    """Adds an ISO to the library, the platform's when there is no account, and has nodes fetch it: all of them a public
    one, those of the account's instances an own one (others fetch it when it is mounted)."""
    remote_file.ensure_allowed_url(url)
    filename = validate_filename(filename or urlsplit(url).path.rpartition("/")[2])
    if account:
        ensure_one_more(account)
    if name:
        ensure_unique_name(Iso, name, account_id=account and account.id)
    made = Iso(
        account_id=account and account.id,
        name=name or make_unique_name(filename, account),
        filename=filename,
        url=url,
        sha256=sha256,
        public=public and account is None,
    )
    session.add(made)
    session.flush()
    for hypervisor_id in session.scalars(
        select_home_hypervisors(account) if account else select_all_hypervisors(made)
    ).all():
        storage = downloads.find_library_storage(hypervisor_id)
        if storage:
            downloads.start(downloads.get_or_create(made, storage), actor=actor)
    session.flush()
    session.refresh(made, ["downloads"])
    return made


def make_unique_name(filename, account):
    """A name that no other of the account's ISOs has: programs look them up by it."""
    alike = or_(Iso.name == filename, Iso.name.startswith(f"{filename} (", autoescape=True))
    taken = set(session.scalars(select(Iso.name).where(alike, Iso.account_id == (account and account.id))))
    numbered = (f"{filename[:240]} ({number})" for number in range(2, len(taken) + 3))
    return next(name for name in (filename, *numbered) if name not in taken)


def validate_filename(filename):
    if not FILENAME_PATTERN.fullmatch(filename):
        words = "May only have letters, digits, dots, underscores and hyphens."
        raise Invalid("The file name of the ISO cannot be used.", reason="iso_filename_invalid", filename=words)
    return filename


def ensure_one_more(account):
    have = session.scalar(select(func.count()).where(Iso.account_id == account.id))
    if have >= MAX_OWN_ISOS:
        raise Invalid(f"An account may have {MAX_OWN_ISOS} ISOs of its own. Remove one first.", reason="limit_reached")


def select_home_hypervisors(account):
    """The nodes of the account's instances that answer."""
    lived_on = select(Instance.hypervisor_id).where(Instance.account_id == account.id)
    return select(Hypervisor.id).where(Hypervisor.id.in_(lived_on), Hypervisor.status == "up")


def select_all_hypervisors(iso):
    return (
        select(Hypervisor.id)
        .where(Hypervisor.status == "up", iso.public)
        .order_by(Hypervisor.name)
        .limit(downloads.MAX_BACKGROUND_DOWNLOADS)
    )  # the sweep goes on with the others


def get_or_create_by_url(url, account, *, actor):
    """The ISO from that address: one that can be chosen already, else a new one of the account's own."""
    found = session.scalar(listing(account).where(Iso.url == url).limit(1))
    return found or create(account, url=url, actor=actor)


def update(iso, **changes):
    if "filename" in changes:
        validate_filename(changes["filename"])
    if "name" in changes:
        ensure_unique_name(Iso, changes["name"], exclude=iso, account_id=iso.account_id)
    return update_fields(iso, changes)


def delete(iso, *, actor):
    """Takes the ISO out of the library. Nodes remove their files afterwards."""
    inside = or_(Instance.iso_id == iso.id, Instance.secondary_iso_id == iso.id)
    if session.scalar(select(Instance.id).where(inside).limit(1)):
        raise Conflict("The ISO lies in a drive. Eject it first.", reason="iso_mounted")
    for download in iso.downloads:
        if download.volume:
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
