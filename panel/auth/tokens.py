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

ADDRESS_REFUSED_MESSAGE = "The token may not be used from this address."


@dataclass(frozen=True)
class ApiPrincipal:
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
class RouteRequirement:
    """What a route of the user API asks of whoever calls it."""

    permission: str
    scope: str | None
    unscoped_kind: str | None
    """Tokens of this kind need no scope here."""
    is_writing: bool = False
    """Whether something is done here even by a reading method."""


def requires_permission(
    permission, scope=None, unscoped_kind=None, operation=None, budget="requests", is_writing=False
):
    """Lets the view run only for a caller who holds the permission; default deny.

    On the user API the token also needs the scope; tokens of `unscoped_kind` do not (an impersonation may always end
    itself). `budget` is what the request is counted in (panel.ratelimit.api_budget). `writes`: it writes although
    its method is a reading one.
    """
    permissions.check(permission)
    door = RouteRequirement(permission, scope, unscoped_kind, is_writing)
    if permission.startswith(("admin:", permissions.ANY_ADMIN)):
        enter = functools.partial(authorize_platform_token, "admin")
    elif permission == permissions.BILLING:
        enter = functools.partial(authorize_platform_token, "billing")
    else:
        enter = functools.partial(authorize_user_token, door)

    def guard(view):
        @functools.wraps(view)
        def guarded(*args, **kwargs):
            g.writes = is_writing
            if permission == permissions.PUBLIC:
                api_budget.consume(budget, anonymous_key())
            else:
                g.operation, g.caller = operation, enter(find_token(budget))
            return view(*args, **kwargs)

        guarded.door, guarded.budget = door, budget
        return guarded

    return guard


def current_principal() -> ApiPrincipal:
    return g.caller


def authorize_user_token(requirement, token):
    address = token and record_use(token)
    if token is None or token.person_id is None:
        raise Unauthenticated("The token is missing, unknown or no longer valid.")
    access = Access.of(token, impersonator=token.issued_by)
    for refusal in authorization_errors(requirement, request.method, token, access, address):
        raise refusal
    return ApiPrincipal(token.id, token.kind, token.name, access)


def authorization_errors(requirement, method, token, access, address):
    """Every reason why this token, from this address, may not go through the door. Each says which of the three failed:
    the address, the token's scope, or the person's permission."""
    if not is_ip_allowed(token, address):
        yield Forbidden(ADDRESS_REFUSED_MESSAGE)
    if requirement.scope and requirement.scope not in token.scopes and token.kind != requirement.unscoped_kind:
        yield Forbidden(f"The token's scope does not permit this action: it needs {requirement.scope}.")
    if access.impersonator and requirement.permission in permissions.FORBIDDEN_WHILE_IMPERSONATING:
        yield Forbidden("This cannot be done in somebody else's name. It stays with the person.")
    roleless = requirement.permission in permissions.ROLE_INDEPENDENT
    if not roleless and not access.has_permission(requirement.permission):
        yield permission_denied(requirement.permission)
    if access.suspended and not roleless and (requirement.is_writing or method not in permissions.READ_METHODS):
        yield Forbidden("The account is suspended. Contact support.", reason="account_suspended")


def permission_denied(permission):
    return Forbidden(f"Your role in the team does not permit this action: it needs {permission}.")


def require_also(permission):
    """For a view that shows what belongs to a second family, too: the person has to hold that permission as well. The
    token's scope stays the one of the path. Asked after the lookup, so that a foreign thing is not there first."""
    if not g.caller.access.has_permission(permissions.check(permission)):
        raise permission_denied(permission)


def authorize_platform_token(kind, token):
    if not bearer_from_header():
        raise Forbidden("Unauthorized!")
    if token is None:
        raise Unauthenticated("Unauthorized!")
    address = record_use(token)
    if token.kind != kind:
        raise Forbidden("Unauthorized")
    if not is_ip_allowed(token, address):
        raise Forbidden(ADDRESS_REFUSED_MESSAGE)
    return ApiPrincipal(token.id, token.kind, token.name, None)


def bearer_from_header():
    """The bearer value of this request, or an empty text."""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def find_token(budget):
    """The usable token of this request, or None. The request is counted with it, or with the address it comes from."""
    value = bearer_from_header()
    digest = tokens.hash_secret(value)
    known = token_cache.find(digest)
    word = known and api_budget.consume(budget, known.token.id, read_key=token_cache.VERSION_KEY)
    if known and word == known.word:
        return tokens.if_active(known.token)
    word = word or token_cache.cache_version()  # read before the rows are, so that no change falls between
    token = tokens.find(value) if 20 < len(value) < 200 else None
    if not known:
        api_budget.consume(budget, token.id if token else anonymous_key())
    token_cache.put(digest, token, word)
    return token


def anonymous_key():
    """Who is counted when there is no valid token."""
    return windows.rate_limit_network(source_address())


def record_use(token):
    """Writes down that the token was used, also if it is refused next; returns the address that it was used from."""
    address = source_address()
    tokens.record_use(token.id, str(address))
    return address


def is_ip_allowed(token, address):
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
