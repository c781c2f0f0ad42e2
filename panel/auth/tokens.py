"""Bearer tokens: from the header to a caller, and the check that stands on every route (specification 5.3 to 5.6)."""

import functools
import ipaddress
from dataclasses import dataclass

from flask import current_app, g, request

from panel.auth import permissions
from panel.core.errors import Forbidden, Unauthenticated
from panel.ratelimit import api_budget, windows
from panel.services import token_cache, tokens
from panel.services.access import Access

FROM_ELSEWHERE = "The token may not be used from this address."


@dataclass(frozen=True)
class Caller:
    """Somebody who was let in: a customer's token, or the platform's own."""

    token_id: str
    kind: str
    """`user`, `impersonation`, `admin` or `billing`."""
    token_name: str
    access: Access | None
    """Whose resources; None for the platform's tokens."""

    @property
    def actor(self):
        """Who asked, for the history."""
        return self.access.actor if self.access else f"API token {self.token_name}"


@dataclass(frozen=True)
class Door:
    """What a route of the user API asks of whoever calls it."""

    permission: str
    scope: str | None
    unscoped_kind: str | None
    """Tokens of this kind need no scope here."""
    writes: bool = False
    """Whether something is done here even by a reading method."""


def can(permission, scope=None, unscoped_kind=None, operation=None, budget="requests", writes=False):
    """Lets the view run only for a caller who holds the permission; default deny.

    On the user API the token also needs the scope; tokens of `unscoped_kind` do not (an impersonation may always end
    itself). `budget` is what the request is counted in (panel.ratelimit.api_budget). `writes`: also with a reading method.
    """
    permissions.check(permission)
    door = Door(permission, scope, unscoped_kind, writes)
    if permission.startswith(("admin:", permissions.ANY_ADMIN)):
        enter = functools.partial(platform_caller, "admin")
    elif permission == permissions.BILLING:
        enter = functools.partial(platform_caller, "billing")
    else:
        enter = functools.partial(user_caller, door)

    def guard(view):
        @functools.wraps(view)
        def guarded(*args, **kwargs):
            g.writes = writes
            if permission == permissions.PUBLIC:
                api_budget.count(budget, stranger())
            else:
                g.operation, g.caller = operation, enter(bearer(budget))
            return view(*args, **kwargs)

        guarded.door, guarded.budget = door, budget
        return guarded

    return guard


def caller_of() -> Caller:
    return g.caller


def user_caller(door, token):
    address = token and noted(token)
    if token is None or token.person_id is None:
        raise Unauthenticated("The token is missing, unknown or no longer valid.")
    access = Access.of(token, impersonator=token.issued_by)
    for refusal in refusals(door, request.method, token, access, address):
        raise refusal
    return Caller(token.id, token.kind, token.name, access)


def refusals(door, method, token, access, address):
    """Every reason why this token, from this address, may not go through the door. Each says which of the three failed:
    the address, the token's scope, or the person's permission."""
    if not welcome(token, address):
        yield Forbidden(FROM_ELSEWHERE)
    if door.scope and door.scope not in token.scopes and token.kind != door.unscoped_kind:
        yield Forbidden(f"The token's scope does not permit this action: it needs {door.scope}.")
    if access.impersonator and door.permission in permissions.NEVER_AS_ANOTHER:
        yield Forbidden("This cannot be done in somebody else's name. It stays with the person.")
    roleless = door.permission in permissions.ROLELESS
    if not roleless and not access.holds(door.permission):
        yield lacking(door.permission)
    if access.suspended and not roleless and (door.writes or method not in permissions.READING):
        yield Forbidden("The account is suspended. Contact support.", reason="account_suspended")


def lacking(permission):
    return Forbidden(f"Your role in the team does not permit this action: it needs {permission}.")


def also_needs(permission):
    """For a view that shows what belongs to a second family, too: the person has to hold that permission as well. The
    token's scope stays the one of the path. Asked after the lookup, so that a foreign thing is not there first."""
    if not g.caller.access.holds(permissions.check(permission)):
        raise lacking(permission)


def platform_caller(kind, token):
    if not shown():
        raise Forbidden("Unauthorized!")
    if token is None:
        raise Unauthenticated("Unauthorized!")
    address = noted(token)
    if token.kind != kind:
        raise Forbidden("Unauthorized")
    if not welcome(token, address):
        raise Forbidden(FROM_ELSEWHERE)
    return Caller(token.id, token.kind, token.name, None)


def shown():
    """The bearer value of this request, or an empty text."""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def bearer(budget):
    """The usable token of this request, or None. The request is counted with it, or with the address it comes from."""
    value = shown()
    digest = tokens.hashed(value)
    known = token_cache.token(digest)
    word = known and api_budget.count(budget, known.token.id, reading=token_cache.WORD)
    if known and word == known.word:
        return tokens.usable(known.token)
    word = word or token_cache.word()  # read before the rows are, so that no change falls between
    token = tokens.find(value) if 20 < len(value) < 200 else None
    if not known:
        api_budget.count(budget, token.id if token else stranger())
    token_cache.keep(digest, token, word)
    return token


def stranger():
    """Who is counted when there is no valid token."""
    return windows.neighbourhood(source_address())


def noted(token):
    """Writes down that the token was used, also if it is refused next; returns the address that it was used from."""
    address = source_address()
    tokens.used(token.id, str(address))
    return address


def welcome(token, address):
    """Whether the token may be used from this address."""
    return not token.allowed_ips or any(address in ipaddress.ip_network(net) for net in token.allowed_ips)


def source_address():
    """Where the request came from: the peer itself, unless it is a trusted proxy that names somebody else."""
    trusted = current_app.extensions["config"].proxies
    hops = [request.remote_addr or "0.0.0.0", *reversed(request.headers.get("X-Forwarded-For", "").split(","))]
    for hop in hops:
        try:
            address = ipaddress.ip_address(hop.strip())
        except ValueError:
            break
        found = address.ipv4_mapped or address if address.version == 6 else address
        if not any(found in network for network in trusted):
            break
    return found
