"""Brands: which one a request, an account and a mail have, and their changes by operators.

Each process caches all brands for some seconds, as it does with settings.
"""

import time
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Select, func, select

from panel.core import context
from panel.core.brand_identity import BrandIdentity, build_url, current_host
from panel.core.config import has_host_below, is_public_url
from panel.core.db import on_commit, session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Account, Brand
from panel.services import brand_images, settings
from panel.services.crud import get_or_404, update_fields

MAX_BRANDS = 100
COPIED_COLUMNS = (
    "id",
    "host",
    "name",
    "accent",
    "logo",
    "favicon",
    "sign_in_text",
    "support_url",
    "terms_url",
    "privacy_url",
    "imprint_url",
    "sender_name",
    "sender_address",
)


def get_all() -> dict[str | None, BrandIdentity]:
    """Return all brands by host name, the default one under None. They are at most some seconds old."""
    process = context.current()
    expires_at, brands = process.cached_brands
    if brands is None or expires_at < time.monotonic():
        brands = load()
        process.cached_brands = time.monotonic() + settings.SETTINGS_CACHE_SECONDS, brands
    return brands


def load() -> dict[str | None, BrandIdentity]:
    """Return all brands as they are in the database now."""
    rows = session.execute(select(*(getattr(Brand, name) for name in COPIED_COLUMNS))).mappings()
    config = context.current().config
    brands = {None: build_builtin()}
    return brands | {row["host"]: BrandIdentity(url=build_url(config, row["host"]), **row) for row in rows}


def build_identity(row: Brand) -> BrandIdentity:
    """Return the identity of a row as it is now."""
    values = {name: getattr(row, name) for name in COPIED_COLUMNS}
    return BrandIdentity(url=build_url(context.current().config, row.host), **values)


def build_builtin() -> BrandIdentity:
    """Return the identity of an installation whose operators have set none."""
    return BrandIdentity(url=build_url(context.current().config, None))


def invalidate() -> None:
    context.current().cached_brands = 0, None


def get_current() -> BrandIdentity:
    """Return the brand of the request's host, else the default brand."""
    return find_by_host(current_host.get())


def get_current_id() -> str | None:
    """Return the id of the request's brand for a new account; None for the default brand."""
    brand = get_current()
    return brand.id if brand.host else None


def get_last_known() -> BrandIdentity:
    """Return the brand of the request's host without asking the database."""
    _, brands = context.current().cached_brands
    return (brands or {}).get(current_host.get()) or (brands or {}).get(None) or build_builtin()


def find_by_host(host: str) -> BrandIdentity:
    """Return the brand of a host name; the default brand for an unknown one."""
    brands = get_all()
    return brands.get(host.lower()) or brands[None]


def find_by_id(brand_id: str | None) -> BrandIdentity:
    """Return a brand by its id; the default brand for None and for one that was deleted."""
    brands = get_all()
    return next((brand for brand in brands.values() if brand_id and brand.id == brand_id), brands[None])


def get_of_account(account_id: str) -> BrandIdentity:
    return find_by_id(session.scalar(select(Account.brand_id).where(Account.id == account_id)))


def get_of_mail(recipient: str, *, brand_id: str | None = None, host: str = "") -> BrandIdentity:
    """Return the brand of a mail: that of the recipient's account, else the given one, else that of the host of the
    request that caused it."""
    query = select(Account.brand_id).where(Account.email == recipient.strip().lower())
    known = session.execute(query).first()
    if known or brand_id:
        return find_by_id(known[0] if known else brand_id)
    return find_by_host(host)


def list_hosts() -> set[str]:
    """Return the host names of all brands but the default one."""
    return {host for host in get_all() if host}


def listing() -> Select[Brand]:
    """Select the brands that have a host, by name."""
    return select(Brand).where(Brand.host.is_not(None)).order_by(Brand.name, Brand.id)


def get(brand_id: str, error_field: str | None = None) -> Brand:
    return get_or_404(Brand, brand_id, message("No such brand."), error_field)


def find_row(host: str | None) -> Brand | None:
    return session.scalar(select(Brand).where(Brand.host == host if host else Brand.host.is_(None)))


def list_options() -> list[tuple[str, str]]:
    """Return (id, name) of the brands that have a host."""
    return [(row.id, row.name) for row in session.scalars(listing())]


def save(row: Brand | None, *, host: str | None = None, **changes: Any) -> Brand:
    """Change a brand or, without a row, create it. `logo` and `favicon` are the images' bytes, or None for none."""
    if row is None:
        ensure_room()
        row = Brand(host=None, is_default=None if host else True)
    if host:
        ensure_host_available(row, host.lower())
        changes["host"] = host.lower()
    for kind in ("logo", "favicon"):
        if changes.get(kind) is not None:
            changes[kind] = brand_images.store(changes[kind], kind)
    if row.id is None:
        changes.setdefault("name", build_builtin().name)
        session.add(row)
    update_fields(row, changes)
    brand_images.delete_unused()
    refresh()
    return row


def ensure_room() -> None:
    if (session.scalar(select(func.count()).select_from(Brand)) or 0) >= MAX_BRANDS:
        raise Invalid(message("There are {maximum} brands, which is the maximum.", maximum=MAX_BRANDS))


def ensure_host_available(row: Brand, host: str) -> None:
    config = context.current().config
    if not is_public_url(build_url(config, host)):
        raise_host_error(message("The value must be a valid hostname."))
    if has_host_below(build_url(config, host), config.sandbox_domain):
        raise_host_error(message("This is a host name of sandboxes."))
    if host == urlsplit(config.public_url).hostname:
        raise_host_error(message("This is the panel's own host name. Its brand is the default one."))
    other = session.scalar(select(Brand.id).where(Brand.host == host))
    if other and other != row.id:
        raise_host_error(message("Another brand has this host name."))


def raise_host_error(sentence: str) -> None:
    raise Invalid(sentence, host=sentence)


def count_accounts(row: Brand) -> int:
    return session.scalar(select(func.count()).select_from(Account).where(Account.brand_id == row.id)) or 0


def delete_brand(row: Brand) -> None:
    """Delete a brand. Its accounts have the default brand then. The default brand gets the built-in values."""
    session.delete(row)
    session.flush()
    brand_images.delete_unused()
    refresh()


def assign(account: Account, brand_id: Any) -> Account:
    """Set the brand of an account; None is the default brand."""
    row = get(str(brand_id), "brand_id") if brand_id else None
    return update_fields(account, {"brand_id": row.id if row and row.host else None})


def refresh() -> None:
    """Let this process use the new values at once; others follow within `SETTINGS_CACHE_SECONDS` seconds."""
    session.flush()
    invalidate()
    on_commit(invalidate)
