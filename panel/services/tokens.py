"""Bearer tokens. Only the hash of a value is stored. The value has 256 random bits, so a fast hash is enough."""

import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from ipaddress import ip_network
from itertools import chain
from typing import Any, TypeVar, cast

import orjson
from redis import RedisError
from sqlalchemy import ColumnElement, Row, Select, bindparam, delete, or_, select
from sqlalchemy.orm import joinedload
from sqlalchemy.orm.attributes import set_committed_value

from panel.core import clock, context
from panel.core.db import connect_for_read, on_commit, session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import Message, message
from panel.models import Account, MicrovmApiKey, Token
from panel.schemas.constants import SCOPES
from panel.services.access import ACCESS_COLUMNS, Access, join_membership
from panel.services.crud import update_fields

VALUE_PREFIXES = {"user": "pu_", "impersonation": "pi_", "admin": "pa_", "billing": "pb_"}
DISPLAYED_PREFIX_LENGTH = 8
"""How many characters of a value are stored, so that people can distinguish tokens."""
LAST_USE_RESOLUTION = timedelta(milliseconds=5)
"""Precision of `last_used_at`."""
MAX_RECORDED_TOKENS = 10_000
IMPERSONATION_RETENTION = timedelta(days=30)
"""How long an expired impersonation stays in the lists."""
LastUsed = TypeVar("LastUsed", Token, MicrovmApiKey)
LAST_USE_KEY = "panel:tokens:used"
DELETE_IF_UNCHANGED_SCRIPT = """
for i = 1, #ARGV, 2 do
    if redis.call('hget', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('hdel', KEYS[1], ARGV[i]) end
end
"""
"""Deletes pairs of a Redis hash, except those whose value has changed meanwhile."""


def hash_secret(value: str) -> str:
    return sha256(value.encode()).hexdigest()


def issue(
    kind: str, *, name: str, account: Account | None = None, created_by: Account | None = None, **values: Any
) -> tuple[Token, str]:
    """Create a token.

    Return it with its value, which is not stored. `created_by` is the person who made it, if not `account`.
    """
    value, maker = VALUE_PREFIXES[kind] + secrets.token_urlsafe(32), created_by or account
    token = Token(
        kind=kind,
        account_id=account and account.id,
        created_by_id=maker and maker.id,
        name=name,
        prefix=value[:DISPLAYED_PREFIX_LENGTH],
        secret_hash=hash_secret(value),
        **{"scopes": [], "allowed_ips": [], **values},
    )
    token.scopes, token.allowed_ips = list(token.scopes), list(token.allowed_ips)
    session.add(token)
    session.flush()
    return token, value


def find(value: str) -> Row | None:
    """Return the columns of the usable token with this value and of its person, or None. One query."""
    return get_if_active(find_by_value(value))


def get_if_active(row: Row | None) -> Row | None:
    """Return the row if its token may be used now, else None."""
    current = row and row.enabled and (row.expires_at is None or row.expires_at > clock.now())
    return row if current else None


def find_by_value(value: str) -> Row | None:
    """Return the row of the token with this value, even if it may not be used; or None.

    A connection instead of the session saves the ORM's work, and on SQLite the write lock of a request that may write.
    """
    with connect_for_read() as connection:
        return connection.execute(TOKEN_BY_HASH, {"hash": hash_secret(value)}).one_or_none()


TOKEN_BY_HASH = join_membership(
    select(
        Token.id,
        Token.kind,
        Token.name,
        Token.scopes,
        Token.allowed_ips,
        Token.enabled,
        Token.expires_at,
        Token.issued_by,
        *ACCESS_COLUMNS,
    ).outerjoin(Account, Account.id == Token.account_id)
).where(Token.secret_hash == bindparam("hash"))


def listing(access: Access, kinds: Iterable[str] = ("user",)) -> Select[Token]:
    """Select the tokens that the person made or that act for the person, newest first.

    Members see their own. The owner also sees those that members made before 3.3.0, which act for the owner. Tokens
    that members make today act for them, and only they see them (IDT-39 to IDT-42).
    """
    condition = or_(Token.created_by_id == access.person_id, Token.account_id == access.person_id)
    return select_newest(condition, Token.kind.in_(kinds))


PERSONAL_KINDS = ("user", "impersonation")


def get(token_id: str, access: Access) -> Token:
    token = session.scalar(listing(access, PERSONAL_KINDS).where(Token.id == token_id))
    if token is None:
        raise NotFound(message("No such token."))
    return token


def select_of_account(account: Account) -> Select[Token]:
    """Select every token that acts for the person or that the person made, for operators."""
    condition = or_(Token.created_by_id == account.id, Token.account_id == account.id)
    return select_newest(condition, Token.kind.in_(PERSONAL_KINDS))


def select_platform(kind: str | None = None) -> Select[Token]:
    """Select the platform's own tokens."""
    query = select_newest(Token.account_id.is_(None))
    return query.where(Token.kind == kind) if kind else query


def select_newest(*criteria: ColumnElement[bool]) -> Select[Token]:
    return select(Token).where(*criteria).options(joinedload(Token.maker)).order_by(Token.id.desc())


def get_any_owner(token_id: str) -> Token:
    """Return a token of any account, for operators."""
    token = session.get(Token, token_id)
    if token is None:
        raise NotFound(message("No such token."))
    return token


def create(
    access: Access,
    *,
    name: str,
    scopes: Iterable[str],
    allowed_ips: Iterable[str] = (),
    expires_at: datetime | None = None,
    requesting_token: Token | None = None,
) -> tuple[Token, str]:
    """Create a token that acts for the person who makes it, who may be a team member. Return it with its value.

    `requesting_token` is the token that makes the request, or None for a person. The new token gets no more scopes,
    addresses and lifetime than that token; missing addresses and a missing expiry are taken from it.
    """
    if expires_at and expires_at <= clock.now():
        raise build_expiry_error(message("Must be in the future."))
    if requesting_token:
        ensure_scopes_within(requesting_token, scopes, allowed_ips, expires_at)
        allowed_ips, expires_at = allowed_ips or requesting_token.allowed_ips, expires_at or requesting_token.expires_at
    person = session.get(Account, access.person_id)
    return issue(
        "user", name=name, account=person, scopes=sort_scopes(scopes), allowed_ips=allowed_ips, expires_at=expires_at
    )


def update(token: Token, requesting_token: Token | None = None, **changes: Any) -> Token:
    """Rename a token or restrict it: fewer scopes, an earlier expiry, other addresses."""
    if "scopes" in changes:
        changes["scopes"] = sort_scopes(changes["scopes"])
        ensure_scopes_held(
            message("Scopes can only be removed from a token. This one does not have {scopes}."),
            changes["scopes"],
            token,
        )
    if "expires_at" in changes:
        ensure_expiry_within(token, changes["expires_at"])
    if requesting_token and requesting_token.allowed_ips and not changes.get("allowed_ips", True):
        raise Invalid(
            message("A token that is limited to some addresses cannot grant access to all."),
            allowed_ips=message("Name the addresses."),
        )
    if requesting_token:
        ensure_scopes_within(requesting_token, allowed_ips=changes.get("allowed_ips", ()))
    return update_fields(token, changes)


def ensure_scopes_within(
    requesting_token: Token,
    scopes: Iterable[str] = (),
    allowed_ips: Iterable[str] = (),
    expires_at: datetime | None = None,
) -> None:
    """Raise Invalid if scopes, addresses or expiry exceed those of the requesting token."""
    ensure_scopes_held(
        message("A token can only grant scopes that it has. This one does not have {scopes}."), scopes, requesting_token
    )
    allowed = [ip_network(parent) for parent in requesting_token.allowed_ips]
    for network in map(ip_network, allowed_ips):
        if allowed and not any(
            network.network_address in parent and network.prefixlen >= parent.prefixlen for parent in allowed
        ):
            sentence = message("The requesting token may not be used from {network} itself.", network=network)
            raise Invalid(sentence, allowed_ips=sentence)
    if requesting_token.expires_at and expires_at and expires_at > requesting_token.expires_at:
        raise build_expiry_error(message("Must not be later than the expiry of the requesting token."))


def ensure_scopes_held(sentence: Message, scopes: Iterable[str], token: Token) -> None:
    missing = [scope for scope in scopes if scope not in token.scopes]
    if missing:
        error = sentence.format(scopes=", ".join(missing))
        raise Invalid(error, scopes=error)


def ensure_expiry_within(token: Token, expires_at: datetime | None) -> None:
    if expires_at == token.expires_at is None:
        return
    if expires_at is None:
        raise build_expiry_error(
            message("A token that expires must keep an expiry date. It can only be moved earlier.")
        )
    if expires_at <= clock.now():
        raise build_expiry_error(message("Must be in the future. To end the token now, revoke it."))
    if token.expires_at and expires_at > token.expires_at:
        raise build_expiry_error(message("Can only be moved earlier."))


def build_expiry_error(sentence: str) -> Invalid:
    return Invalid(message("expires_at: {error}", error=sentence), expires_at=sentence)


def sort_scopes(scopes: Iterable[str]) -> list[str]:
    """Return the scopes without duplicates, in the order of `SCOPES`."""
    return sorted(set(scopes), key=SCOPES.index)


def set_enabled(token: Token, enabled: bool) -> Token:
    """Enable or disable a token. A disabled token is refused, but can be enabled again."""
    return update_fields(token, {"enabled": enabled})


def revoke(token: Token) -> None:
    """Delete the token. It is refused from the next request on."""
    session.delete(token)
    session.flush()


def purge_expired() -> None:
    """Delete impersonations after their retention. An expired token of a user stays until its owner removes it."""
    expired = Token.expires_at < clock.now() - IMPERSONATION_RETENTION
    session.execute(delete(Token).where(Token.kind == "impersonation", expired))


def record_use(token_id: str, ip: str) -> None:
    """Record that the token or sandbox key was used, and from where.

    Requests must not write to the database for this: the use is stored in Redis, at most 200 times a second for each
    process, until a worker writes it to the row.
    """
    now = clock.now()
    recorded_uses = context.current().recorded_token_uses
    if now - recorded_uses.get(token_id, now - LAST_USE_RESOLUTION) < LAST_USE_RESOLUTION:
        return
    if len(recorded_uses) >= MAX_RECORDED_TOKENS:
        recorded_uses.clear()
    recorded_uses[token_id] = now
    call_redis("hset", token_id, orjson.dumps([now, ip]))  # without Redis this use is not noted


def call_redis(command: str, *arguments: Any) -> Any:
    """Run a command on the hash of recorded uses and return the answer; None while Redis is unreachable.

    Only one request waits for the timeout; later ones skip Redis for `context.REDIS_PAUSE_SECONDS`.
    """
    process = context.current()
    if process.is_redis_paused():
        return None
    try:
        return getattr(process.redis, command)(LAST_USE_KEY, *arguments)
    except (RedisError, OSError):
        process.pause_redis()
        return None


def write_last_use() -> None:
    """Write the uses that are recorded in Redis to the rows.

    It bypasses the session's events, because no change affects access (see panel.services.token_cache).
    """
    pending = cast(dict[bytes, bytes], context.current().redis.hgetall(LAST_USE_KEY))
    for token_id, noted_use in pending.items():
        used_at, ip = orjson.loads(noted_use)
        values = {"last_used_at": datetime.fromisoformat(used_at), "last_used_ip": ip}
        for table in (Token.__table__, MicrovmApiKey.__table__):
            statement = table.update().where(table.c.id == token_id.decode())
            if session.connection().execute(statement.values(values)).rowcount:
                break
    if pending:  # until the commit, refresh_last_used reads these uses from Redis
        on_commit(
            partial(
                context.current().redis.eval,
                DELETE_IF_UNCHANGED_SCRIPT,
                1,
                LAST_USE_KEY,
                *chain.from_iterable(pending.items()),
            )
        )


def refresh_last_used(tokens: Sequence[LastUsed]) -> Sequence[LastUsed]:
    """Set on each row the use that is still in Redis, so that lists show it at once. The rows count as unchanged."""
    pending = call_redis("hmget", [token.id for token in tokens]) if tokens else None
    for token, noted_use in zip(tokens, pending or (), strict=False):
        if noted_use:
            used_at, ip = orjson.loads(noted_use)
            set_committed_value(token, "last_used_at", datetime.fromisoformat(used_at))
            set_committed_value(token, "last_used_ip", ip)
    return tokens
