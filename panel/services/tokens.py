"""Bearer tokens. Only the hash of a value is stored: 256 random bits need no slow hash."""

import math
import secrets
import time
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from ipaddress import ip_network
from itertools import chain

import orjson
from redis import RedisError
from sqlalchemy import bindparam, delete, or_, select
from sqlalchemy.orm import joinedload
from sqlalchemy.orm.attributes import set_committed_value

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.core.errors import Invalid, NotFound
from panel.core.prepared_query import PreparedQuery
from panel.models import Account, Token
from panel.schemas.constants import SCOPES
from panel.services import access
from panel.services.crud import update_fields

VALUE_PREFIXES = {"user": "pu_", "impersonation": "pi_", "admin": "pa_", "billing": "pb_"}
SHOWN_PREFIX_LENGTH = 8
"""How many characters of a value are kept to tell tokens apart."""
LAST_USE_RESOLUTION = timedelta(milliseconds=5)
"""How exact `last_used_at` is."""
MAX_NOTED_TOKENS = 10_000
IMPERSONATION_RETENTION = timedelta(days=30)
"""How long an impersonation that is over stays in the lists."""
LAST_USE_KEY = "panel:tokens:used"
DELETE_IF_UNCHANGED_SCRIPT = """
for i = 1, #ARGV, 2 do
    if redis.call('hget', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('hdel', KEYS[1], ARGV[i]) end
end
"""
"""Takes pairs out of a hash in Redis, but for those that have a newer value by now."""
last_noted_at = {}
"""When this process last noted the use of a token."""
REDIS_PAUSE_SECONDS = 5
"""Seconds in which a Redis that did not answer is not asked again."""
redis_away_until = -math.inf


def hash_secret(value):
    return sha256(value.encode()).hexdigest()


def issue(kind, *, name, account=None, created_by=None, **facts):
    """A new token and its value, which cannot be had again. `maker` is the person who made it, if not `account`."""
    value = VALUE_PREFIXES[kind] + secrets.token_urlsafe(32)
    token = Token(
        kind=kind,
        account_id=account and account.id,
        created_by_id=(created_by or account) and (created_by or account).id,
        name=name,
        prefix=value[:SHOWN_PREFIX_LENGTH],
        secret_hash=hash_secret(value),
        **{"scopes": [], "allowed_ips": [], **facts},
    )
    token.scopes, token.allowed_ips = list(token.scopes), list(token.allowed_ips)
    session.add(token)
    session.flush()
    return token, value


def find(value):
    """What there is to know of the usable token with this value and of the person it acts for; or None. One query."""
    return if_active(find_by_value(value))


def if_active(row):
    """The same row, or None when it is none or the token may not be used now."""
    current = row and row.enabled and (row.expires_at is None or row.expires_at > clock.now())
    return row if current else None


def find_by_value(value):
    """The same, also when the token is not usable."""
    return TOKEN_BY_HASH.one(hash_secret(value))


TOKEN_BY_HASH = PreparedQuery(
    access.join_membership(
        select(
            Token.id,
            Token.kind,
            Token.name,
            Token.scopes,
            Token.allowed_ips,
            Token.enabled,
            Token.expires_at,
            Token.issued_by,
            *access.ACCESS_COLUMNS,
        ).outerjoin(Account, Account.id == Token.account_id)
    ).where(Token.secret_hash == bindparam("hash"))
)


def listing(access, kinds=("user",)):
    """The tokens that the person made and those that act for the person, newest first.

    So a member sees the member's own, and the owner also sees those which members made before 3.3.0: they act for the
    owner. What members make today acts for them, and they alone see it (specification 4.7).
    """
    mine = or_(Token.created_by_id == access.person_id, Token.account_id == access.person_id)
    return select_newest(mine, Token.kind.in_(kinds))


PERSONAL_KINDS = ("user", "impersonation")


def get(token_id, access):
    found = session.scalar(listing(access, PERSONAL_KINDS).where(Token.id == token_id))
    if found is None:
        raise NotFound("No such token.")
    return found


def select_of_account(account):
    """Every token that acts for the person or that the person made, for operators."""
    mine = or_(Token.created_by_id == account.id, Token.account_id == account.id)
    return select_newest(mine, Token.kind.in_(PERSONAL_KINDS))


def select_platform(kind=None):
    """The platform's own tokens."""
    own = select_newest(Token.account_id.is_(None))
    return own.where(Token.kind == kind) if kind else own


def select_newest(*criteria):
    return select(Token).where(*criteria).options(joinedload(Token.maker)).order_by(Token.id.desc())


def get_any_owner(token_id):
    """A token of anybody, for operators."""
    found = session.get(Token, token_id)
    if found is None:
        raise NotFound("No such token.")
    return found


def create(access, *, name, scopes, allowed_ips=(), expires_at=None, requesting_token=None):
    """A token that acts as the person who makes it, a member as that member; and its value.

    `giver` is the token that asks for it, None when the person does. It gives nothing that it does not have: its
    scopes, its addresses and its end are the bounds of the new one, and stand in for what was left out.
    """
    if expires_at and expires_at <= clock.now():
        raise invalid_expiry("Must be in the future.")
    if requesting_token:
        ensure_scopes_within(requesting_token, scopes, allowed_ips, expires_at)
        allowed_ips, expires_at = allowed_ips or requesting_token.allowed_ips, expires_at or requesting_token.expires_at
    person = session.get(Account, access.person_id)
    return issue(
        "user", name=name, account=person, scopes=sort_scopes(scopes), allowed_ips=allowed_ips, expires_at=expires_at
    )


def update(token, requesting_token=None, **changes):
    """Renames a token or narrows it: fewer scopes, an earlier end, other addresses."""
    if "scopes" in changes:
        changes["scopes"] = sort_scopes(changes["scopes"])
        ensure_scopes_held("A token's scopes can only become fewer. It does not have", changes["scopes"], token)
    if "expires_at" in changes:
        ensure_expiry_within(token, changes["expires_at"])
    if requesting_token and requesting_token.allowed_ips and not changes.get("allowed_ips", True):
        raise Invalid("A token for some addresses cannot open another to all.", allowed_ips="Name the addresses.")
    if requesting_token:
        ensure_scopes_within(requesting_token, allowed_ips=changes.get("allowed_ips", ()))
    return update_fields(token, changes)


def ensure_scopes_within(requesting_token, scopes=(), allowed_ips=(), expires_at=None):
    """Raises when a token would give what it does not have itself."""
    ensure_scopes_held("A token gives only scopes that it has. This one does not have", scopes, requesting_token)
    inside = [ip_network(each) for each in requesting_token.allowed_ips]
    for wanted in map(ip_network, allowed_ips):
        if inside and not any(wanted.version == each.version and wanted.subnet_of(each) for each in inside):
            sentence = f"The token that asks may not be used from {wanted} itself."
            raise Invalid(sentence, allowed_ips=sentence)
    if requesting_token.expires_at and expires_at and expires_at > requesting_token.expires_at:
        raise invalid_expiry("Must not be later than the end of the token that asks.")


def ensure_scopes_held(sentence, scopes, token):
    missing = [scope for scope in scopes if scope not in token.scopes]
    if missing:
        raise Invalid(f"{sentence} {', '.join(missing)}.", scopes=f"{sentence} {', '.join(missing)}.")


def ensure_expiry_within(token, expires_at):
    if expires_at == token.expires_at is None:
        return
    if expires_at is None:
        raise invalid_expiry("A token that ends keeps an end: it can only be made earlier.")
    if expires_at <= clock.now():
        raise invalid_expiry("Must be in the future. To end the token now, revoke it.")
    if token.expires_at and expires_at > token.expires_at:
        raise invalid_expiry("Must not be later than it is: the life of a token can only be shortened.")


def invalid_expiry(sentence):
    return Invalid(f"expires_at: {sentence}", expires_at=sentence)


def sort_scopes(scopes):
    """Each once, in the order of the table."""
    return sorted(set(scopes), key=SCOPES.index)


def set_enabled(token, enabled):
    """Off is as good as revoked, but can be taken back."""
    return update_fields(token, {"enabled": enabled})


def revoke(token):
    """It is dead from the next request on."""
    session.delete(token)
    session.flush()


def purge_expired():
    """Impersonations that are long over. A user's token that has expired stays until its owner removes it."""
    over = Token.expires_at < clock.now() - IMPERSONATION_RETENTION
    session.execute(delete(Token).where(Token.kind == "impersonation", over))


def record_use(token_id, ip):
    """Notes that the token was used, and from where. A request writes nothing to the database: it waits in Redis, at
    most two hundred times a second for each process, until a worker writes it down."""
    now = clock.now()
    if now - last_noted_at.get(token_id, now - LAST_USE_RESOLUTION) < LAST_USE_RESOLUTION:
        return
    if len(last_noted_at) >= MAX_NOTED_TOKENS:
        last_noted_at.clear()
    last_noted_at[token_id] = now
    call_redis("hset", token_id, orjson.dumps([now, ip]))  # without Redis this use is not noted


def call_redis(command, *arguments):
    """What Redis answers about the uses that wait there; None while it is away, which holds up one request only."""
    global redis_away_until
    if time.monotonic() < redis_away_until:
        return None
    try:
        return getattr(jobs.connection, command)(LAST_USE_KEY, *arguments)
    except (RedisError, OSError):
        redis_away_until = time.monotonic() + REDIS_PAUSE_SECONDS
        return None


def write_last_use():
    """Moves what waits in Redis into the rows. It goes past the session: nothing changes that access depends on
    (panel.services.token_cache)."""
    waiting = jobs.connection.hgetall(LAST_USE_KEY)
    for token_id, noted_use in waiting.items():
        when, ip = orjson.loads(noted_use)
        stamp = Token.__table__.update().where(Token.id == token_id.decode())
        session.connection().execute(stamp.values(last_used_at=datetime.fromisoformat(when), last_used_ip=ip))
    if waiting:  # until the rows are kept it is still shown from there
        on_commit(
            partial(
                jobs.connection.eval, DELETE_IF_UNCHANGED_SCRIPT, 1, LAST_USE_KEY, *chain.from_iterable(waiting.items())
            )
        )


def refresh_last_used(tokens):
    """Shows on each row the use that still waits to be written down, so that whoever looks sees it at once. The rows
    count as unchanged."""
    waiting = call_redis("hmget", [token.id for token in tokens]) if tokens else None
    for token, noted_use in zip(tokens, waiting or (), strict=False):
        if noted_use:
            when, ip = orjson.loads(noted_use)
            set_committed_value(token, "last_used_at", datetime.fromisoformat(when))
            set_committed_value(token, "last_used_ip", ip)
    return tokens
