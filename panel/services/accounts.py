"""Accounts: people who sign in."""

from collections.abc import Callable
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import Select, delete, func, or_, select
from sqlalchemy.orm import joinedload, selectinload, undefer

from panel.core import clock
from panel.core.db import Model, session
from panel.core.errors import Conflict, Invalid
from panel.core.languages import list_languages
from panel.core.messages import Message, join_messages, message, plural_message
from panel.models import Account, BackupRepository, Image, Member, Microvm, MicrovmImage
from panel.schemas.constants import ACCOUNT_LIMITS
from panel.services import alert_rules, brands, one_time_tokens, operators
from panel.services.crud import get_or_404, update_fields
from panel.services.password_rules import ensure_strong_password
from panel.services.search_kinds import contains_text, platform_search

hasher = PasswordHasher()
DUMMY_PASSWORD_HASH = "$argon2id$v=19$m={0.memory_cost},t={0.time_cost},p={0.parallelism}${1:A<22}${1:A<43}".format(
    hasher, ""
)
"""Verified when there is no such account, so that the response takes as long. Salt and hash are zeros: hashing a real
password would delay the start of every process by a fifth of a second."""
ACCOUNT_KINDS = ("customer", "member", "operator")


def listing(search: str | None = None, *, kind: str | None = None, suspended: bool | None = None) -> Select[Account]:
    """Select all accounts, newest first. `search` matches names, companies and email addresses."""
    query = select(Account).order_by(Account.id.desc())
    if search:
        names = (Account.email, Account.first_name, Account.last_name, Account.company_name)
        query = query.where(or_(*(column.icontains(search, autoescape=True) for column in names)))
    if kind == "operator":
        query = query.where(Account.operator_role.is_not(None))
    elif kind:
        joined = select(Member.account_id).where(Member.account_id == Account.id).exists()
        query = query.where(joined if kind == "member" else ~joined)
    if suspended is not None:
        query = query.where(Account.suspended_at.is_not(None) if suspended else Account.suspended_at.is_(None))
    return query


def count_customers() -> int:
    """Return the number of accounts that are neither operators nor members of a team. One query."""
    query = (
        listing(kind="customer").where(Account.operator_role.is_(None)).with_only_columns(func.count()).order_by(None)
    )
    return session.scalars(query).one()


def get(account_id: str, error_field: str | None = None) -> Account:
    return get_or_404(Account, account_id, message("No such user."), error_field)


def with_details(query: Select[Account]) -> Select[Account]:
    """Load with each account the number of its instances, its membership of a team, and its open invitations."""
    return query.options(
        undefer(Account.instances),
        joinedload(Account.membership).joinedload(Member.owner),
        selectinload(Account.invitations),
    )


def find_by_email(email: str) -> Account | None:
    return session.scalar(select(Account).where(Account.email == email.strip().lower()))


def get_language(email: str) -> str | None:
    """Return the language of mails to the address: the one that its person has chosen, else the browser's at the last
    sign-in. None if neither is known, or the panel has lost the language."""
    languages_of_account = session.execute(
        select(Account.language, Account.browser_language).where(Account.email == email.strip().lower())
    ).first()
    return next((language for language in languages_of_account or () if language in list_languages()), None)


def create(*, email: str, password: str | None = None, operator_role: str | None = None, **names: Any) -> Account:
    """Create an account. Without a password the person cannot sign in on the pages until one is set. By
    default, its brand is that of the request's host."""
    ensure_unique_email(email)
    names.setdefault("brand_id", brands.get_current_id())
    account = Account(email=email.strip().lower(), operator_role=operator_role, **names)
    if password:
        set_password(account, password)
    session.add(account)
    session.flush()
    return account


def ensure_unique_email(email: str, exclude: Account | None = None) -> None:
    if find_by_email(email) not in (None, exclude):
        raise Invalid(
            message("An account with this email address already exists."), email=message("This address is taken.")
        )


def update(account: Account, **changes: Any) -> Account:
    """Change names and, for operators, email address and limits. A limit of None stays as it is (LIM-10).
    Mailed password links to an earlier address become invalid."""
    if "email" in changes:
        ensure_unique_email(changes["email"], exclude=account)
        changes["email"] = changes["email"].strip().lower()
        if changes["email"] != account.email:
            one_time_tokens.revoke_all(account, one_time_tokens.PASSWORD_RESET)
            update_member_email(account, changes["email"])
    return update_fields(
        account, {name: value for name, value in changes.items() if value is not None or name not in ACCOUNT_LIMITS}
    )


def update_member_email(account: Account, email: str) -> None:
    """Copy a new email address to the person's team membership."""
    member = session.scalar(select(Member).where(Member.account_id == account.id))
    if member:
        member.email = email


def suspend(account: Account, reason: str | None = None) -> Account:
    """Suspend the account. The person can still sign in, read, and change their own profile and security. The account's
    resources keep running: an operator stops them one by one, so an account suspended by mistake loses nothing."""
    if account.suspended_at is None:
        operators.ensure_one_left(account)
        account.suspended_at = clock.now()
        alert_rules.reset_suspended(account)
    account.suspended_reason = reason
    session.flush()
    return account


def unsuspend(account: Account) -> Account:
    account.suspended_at = account.suspended_reason = None
    session.flush()
    return account


def remove(account: Account) -> None:
    """Delete an account that owns nothing, with its tokens, sessions and keys. Its billing records stay. Raise
    `owns_resources` otherwise."""
    owned = describe_owned_resources(account)
    if owned:
        raise Conflict(
            message("{email} still has {owned}. Remove that first.", email=account.email, owned=owned),
            reason="owns_resources",
        )
    operators.ensure_one_left(account)
    session.execute(delete(BackupRepository).where(BackupRepository.account_id == account.id))  # they have no backups
    session.delete(account)
    session.flush()


OWNED_RESOURCE_LABELS: dict[str, Callable[[int], Message]] = {
    "backup_copies": lambda count: plural_message("{count} copy of a backup", "{count} copies of backups", count=count),
    "instance_backups": lambda count: plural_message("{count} backup", "{count} backups", count=count),
    "images": lambda count: plural_message("{count} image", "{count} images", count=count),
    "instances": lambda count: plural_message("{count} instance", "{count} instances", count=count),
    "members": lambda count: plural_message("{count} team member", "{count} team members", count=count),
    "microvm_images": lambda count: plural_message("{count} micro VM image", "{count} micro VM images", count=count),
    "microvms": lambda count: plural_message("{count} micro VM", "{count} micro VMs", count=count),
    "resource_packs": lambda count: plural_message("{count} resource pack", "{count} resource packs", count=count),
    "volumes": lambda count: plural_message("{count} volume", "{count} volumes", count=count),
}
"""How many rows of a table an account owns, by the table's name."""


def describe_owned_resources(account: Account) -> str:
    """Return the resources that must not be deleted with the account, with counts: rows of every table whose foreign
    key does not cascade, except repositories of backups, images (their files would stay), live micro VMs and members of
    its team. Empty when there are none."""
    columns = [
        key.parent
        for table in Model.metadata.sorted_tables
        if table is not BackupRepository.__table__
        for key in table.foreign_keys
        if key.column.table is Account.__table__ and key.ondelete is None
    ]
    joined_members = select(func.count()).where(Member.owner_id == account.id, Member.account_id.is_not(None))
    counts = {
        column.table.name: session.scalar(select(func.count()).where(column == account.id))
        for column in [*columns, Image.__table__.c.account_id, MicrovmImage.__table__.c.account_id]
    }
    counts["members"] = session.scalar(joined_members)
    live_microvms = select(func.count()).where(Microvm.account_id == account.id, Microvm.ended_at.is_(None))
    counts["microvms"] = session.scalar(live_microvms)
    return join_messages([OWNED_RESOURCE_LABELS[name](count) for name, count in counts.items() if count], ", ")


def set_password(account: Account, password: str, error_field: str = "password") -> None:
    """Set a password. Raise under `field` when it is too short or too easy to guess."""
    ensure_strong_password(password, account.email, error_field)
    account.password_hash = hasher.hash(password)


def authenticate(email: str, password: str) -> Account | None:
    """Return the account if the password is right, else None. Both take the same time."""
    account = find_by_email(email)
    return account if is_password_correct(account, password) else None


def is_password_correct(account: Account | None, password: str) -> bool:
    """Return whether this is the account's password. Takes as long without an account or without a password."""
    password_hash = account and account.password_hash
    try:
        hasher.verify(password_hash or DUMMY_PASSWORD_HASH, password)
    except (VerificationError, InvalidHashError):
        return False
    return password_hash is not None


def select_new_customers() -> Select[Account]:
    """Select customers, newest first, without members of their teams and operators."""
    return listing(kind="customer").where(Account.operator_role.is_(None))


@platform_search("customer", permission="admin:accounts:read", position=20)
def select_by_any_name(text: str) -> Select[str, str, str | None]:
    columns = (Account.email, Account.first_name, Account.last_name, Account.company_name)
    conditions = [contains_text(column, text) for column in columns] + [Account.id == text.lower()]
    return select(Account.id, Account.email, Account.company_name).where(or_(*conditions)).order_by(Account.id.desc())
