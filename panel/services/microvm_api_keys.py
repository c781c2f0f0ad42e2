"""Keys of the sandbox API.

A key belongs to the account and reaches all of its micro VMs, whoever made it. The value has 160 random bits, so a
fast hash is enough.
"""

import secrets

from sqlalchemy import Row, Select, bindparam, select

from panel.core import clock
from panel.core.db import connect_for_read, session
from panel.core.errors import Conflict, Forbidden, Invalid, NotFound
from panel.core.messages import Message, message
from panel.models import Account, MicrovmApiKey, Token
from panel.services.access import Access
from panel.services.search_kinds import customer_search
from panel.services.tokens import DISPLAYED_PREFIX_LENGTH, hash_secret

KEY_PREFIX = "e2b_"
"""What the SDKs expect a key to begin with."""
KEY_RANDOM_BYTES = 20
KEY_PERMISSIONS = ("microvm.view", "microvm.manage", "microvm.delete")
"""What a key permits. Only those who have all of it may create one."""
KEY_BY_HASH = (
    select(
        MicrovmApiKey.id,
        MicrovmApiKey.name,
        MicrovmApiKey.account_id,
        Account.email,
        Account.suspended_at,
        Account.self_provisioning.label("unbilled"),
    )
    .join(Account, Account.id == MicrovmApiKey.account_id)
    .where(MicrovmApiKey.secret_hash == bindparam("hash"), MicrovmApiKey.revoked_at.is_(None))
)


@customer_search(
    "microvm_api_key",
    "sandbox keys",
    permission="microvm.view",
    position=35,
    describe=lambda key: (key.name, f"{key.prefix}… {key.status}"),
)
def listing(account: Access | Account, *, search: str | None = None) -> Select[MicrovmApiKey]:
    """Select the account's keys, newest first. `search` looks at names."""
    query = select(MicrovmApiKey).where(account.visible_rows(MicrovmApiKey)).order_by(MicrovmApiKey.id.desc())
    return query.where(MicrovmApiKey.name.icontains(search, autoescape=True)) if search else query


def get(key_id: str, account: Access | Account) -> MicrovmApiKey:
    query = select(MicrovmApiKey).where(MicrovmApiKey.id == key_id)
    key = session.scalar(query.where(account.visible_rows(MicrovmApiKey)))
    if key is None:
        raise NotFound(message("No such sandbox key."))
    return key


def create_error(access: Access) -> Message | None:
    """Return why the person may not create keys, or None."""
    if access.impersonator:
        return message("This is not possible while acting as another person.")
    missing = [permission for permission in KEY_PERMISSIONS if not access.has_permission(permission)]
    if missing:
        return message(
            "A key can also destroy sandboxes, so creating one needs {permissions}.", permissions=", ".join(missing)
        )
    if access.reach != "all":
        return message("A key reaches all sandboxes of the account, but you have access to chosen resources only.")
    return None


def create(access: Access, *, name: str, requesting_token: Token | None = None) -> tuple[MicrovmApiKey, str]:
    """Create a key. Return it with its value, which is not stored.

    `requesting_token` is the token that makes the request, or None for a person. A token that is limited to addresses
    or in time creates no keys, because a key has no such limit.
    """
    if reason := create_error(access):
        raise Forbidden(reason)
    if requesting_token and (requesting_token.allowed_ips or requesting_token.expires_at):
        raise Invalid(
            message(
                "A token that is limited to addresses or that expires cannot create keys, which have no such limit."
            )
        )
    value = KEY_PREFIX + secrets.token_hex(KEY_RANDOM_BYTES)
    key = MicrovmApiKey(
        account_id=access.id, name=name, prefix=value[:DISPLAYED_PREFIX_LENGTH], secret_hash=hash_secret(value)
    )
    session.add(key)
    session.flush()
    return key, value


def revoke(key: MicrovmApiKey) -> MicrovmApiKey:
    """Revoke a key: it is refused from the next request on, forever."""
    if key.revoked_at:
        raise Conflict(message("The key is already revoked."), reason="already_revoked")
    key.revoked_at = clock.now()
    session.flush()
    return key


def find_by_value(value: str) -> Row | None:
    """Return the columns of the active key with this value and of its account, or None. One query."""
    with connect_for_read() as connection:
        return connection.execute(KEY_BY_HASH, {"hash": hash_secret(value)}).one_or_none()


def build_access(row: Row) -> Access:
    """Return the access of a key: that of the account to which it belongs."""
    return Access(
        id=row.account_id,
        person_id=row.account_id,
        email=row.email,
        suspended=row.suspended_at is not None,
        unbilled=bool(row.unbilled),
    )
