"""Bearer tokens: from the header to a principal, and the check on every API route (IDT-05, IDT-20, ENV-04)."""

import functools
import ipaddress
from dataclasses import dataclass

from flask import current_app, g, request

from panel.auth import permissions
from panel.core.db import begin_request
from panel.core.errors import Forbidden, Unauthenticated
from panel.core.messages import message
from panel.ratelimit import api_budget, windows
from panel.services import token_cache, tokens
from panel.services.access import Access

ADDRESS_REFUSED_MESSAGE = message("The token may not be used from this address.")


@dataclass(frozen=True)
class ApiPrincipal:
    """The authorized caller of an API: a customer's token, a sandbox key or a platform token."""

    token_id: str
    kind: str
    """`user`, `impersonation`, `sandbox`, `admin` or `billing`."""
    token_name: str
    access: Access | None
    """Whose resources it may use; None for platform tokens."""

    @property
    def actor(self):
        """Return the name of the caller for events and tasks."""
        if self.kind == "sandbox":
            return f"sandbox key {self.token_name}"
        return self.access.actor if self.access else f"API token {self.token_name}"


@dataclass(frozen=True)
class RouteRequirement:
    """What a route requires of its caller."""

    permission: str
    scope: str | None
    unscoped_kind: str | None
    """Tokens of this kind need no scope here."""
    is_writing: bool = False
    """Whether the route writes even with a reading method."""


def requires_permission(
    permission, scope=None, unscoped_kind=None, operation=None, budget="requests", is_writing=False
):
    """Decorate a view so that it runs only for callers with the permission.

    On the user API the token also needs the scope, unless it is of `unscoped_kind` (an impersonation may always end
    itself). `operation` is the action in the audit log. `budget` is the rate limit budget (panel.ratelimit.api_budget).
    `is_writing`: the view writes although its method is a reading one. Raise LookupError for an unknown permission.
    """
    permissions.validate_permission(permission)
    requirement = RouteRequirement(permission, scope, unscoped_kind, is_writing)
    if permission.startswith(("admin:", permissions.ANY_ADMIN)):
        authorize = functools.partial(authorize_platform_token, "admin")
    elif permission == permissions.BILLING:
        authorize = functools.partial(authorize_platform_token, "billing")
    else:
        authorize = functools.partial(authorize_user_token, requirement)

    def guard(view):
        @functools.wraps(view)
        def guarded(*args, **kwargs):
            if is_writing:
                begin_request(is_read_only=False)
            if permission == permissions.PUBLIC:
                api_budget.consume(budget, get_anonymous_budget_key())
            else:
                g.operation, g.caller = operation, authorize(find_token(budget))
            return view(*args, **kwargs)

        guarded.requirement, guarded.budget = requirement, budget
        return guarded

    return guard


def get_current_principal() -> ApiPrincipal:
    return g.caller


def authorize_user_token(requirement, token):
    address = token and record_use(token)
    if token is None or token.person_id is None:
        raise Unauthenticated(message("The token is missing, unknown or no longer valid."))
    access = Access.from_row(token, impersonator=token.issued_by)
    for refusal in list_authorization_errors(requirement, request.method, token, access, address):
        raise refusal
    return ApiPrincipal(token.id, token.kind, token.name, access)


def list_authorization_errors(requirement, method, token, access, address):
    """Yield every error because of which this token, from this address, does not meet the requirement. Each message
    names what failed: the address, the token's scope, or the person's permission."""
    if not is_ip_allowed(token, address):
        yield Forbidden(ADDRESS_REFUSED_MESSAGE)
    if requirement.scope and requirement.scope not in token.scopes and token.kind != requirement.unscoped_kind:
        yield Forbidden(
            message("The token's scope does not permit this action: it needs {scope}.", scope=requirement.scope)
        )
    if access.impersonator and requirement.permission in permissions.FORBIDDEN_WHILE_IMPERSONATING:
        yield Forbidden(message("This is not possible while acting as another person."))
    is_role_independent = requirement.permission in permissions.ROLE_INDEPENDENT
    if not is_role_independent and not access.has_permission(requirement.permission):
        yield build_permission_error(requirement.permission)
    if (
        access.suspended
        and not is_role_independent
        and (requirement.is_writing or method not in permissions.READ_METHODS)
    ):
        yield Forbidden(message("The account is suspended. Contact support."), reason="account_suspended")


def build_permission_error(permission):
    return Forbidden(
        message("Your role in the team does not permit this action: it needs {permission}.", permission=permission)
    )


def require_also(permission):
    """Raise Forbidden unless the person also has this permission, in a view that also shows resources of another
    family. The token's scope remains that of the path. Call it after the lookup, so that foreign ids give 404 and not
    403."""
    if not g.caller.access.has_permission(permissions.validate_permission(permission)):
        raise build_permission_error(permission)


def authorize_platform_token(kind, token):
    if not read_bearer_token():
        raise Forbidden("Unauthorized!")
    if token is None:
        raise Unauthenticated("Unauthorized!")
    address = record_use(token)
    if token.kind != kind:
        raise Forbidden("Unauthorized")
    if not is_ip_allowed(token, address):
        raise Forbidden(ADDRESS_REFUSED_MESSAGE)
    return ApiPrincipal(token.id, token.kind, token.name, None)


def read_bearer_token():
    """Return the bearer value of this request, or an empty text."""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def find_token(budget):
    """Return the active token of this request, or None. Count the request in the budget of the token, or of the source
    address when there is none. Raise TooMany."""
    value = read_bearer_token()
    return tokens.get_if_active(find_credential(budget, value, tokens.hash_secret(value), tokens.find))


def find_credential(budget, value, cache_key, find):
    """Return the row of a token or key, from the cache or from `find(value)`, or None. Count the request in its budget,
    or in that of the source address when there is none. Raise TooMany."""
    cached = token_cache.find(cache_key)
    version = cached and api_budget.consume(budget, cached.token.id, read_key=token_cache.VERSION_KEY)
    if cached and version == cached.word:
        return cached.token
    version = version or token_cache.get_cache_version()  # read before the rows, so that a change in between is noticed
    row = find(value) if 20 < len(value) < 200 else None
    if not cached:
        api_budget.consume(budget, row.id if row else get_anonymous_budget_key())
    token_cache.put(cache_key, row, version)
    return row


def get_anonymous_budget_key():
    """Return the rate limit key of requests without a valid token."""
    return windows.get_rate_limit_network(get_source_address())


def record_use(token):
    """Record the use of a token, also if it is refused next. Return the source address."""
    address = get_source_address()
    tokens.record_use(token.id, str(address))
    return address


def is_ip_allowed(token, address):
    """Return whether the token may be used from this address."""
    return not token.allowed_ips or any(address in ipaddress.ip_network(net) for net in token.allowed_ips)


def get_source_address():
    """Return the IP address of the client: the peer's, or the last one in X-Forwarded-For that is not a trusted
    proxy's."""
    trusted = current_app.extensions["config"].proxies
    hops = [request.remote_addr or "0.0.0.0", *reversed(request.headers.get("X-Forwarded-For", "").split(","))]
    for hop in hops:
        try:
            address = ipaddress.ip_address(hop.strip())
        except ValueError:
            break
        source = address.ipv4_mapped or address if address.version == 6 else address
        if not any(source in network for network in trusted):
            break
    return source
