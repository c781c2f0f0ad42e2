"""Bearer tokens: from the header to a caller, and the check that stands on every route (specification 5.3 to 5.6)."""

import functools
import ipaddress
from dataclasses import dataclass

from flask import current_app, g, request

from panel.auth import permissions
from panel.errors import Forbidden, Unauthenticated
from panel.models import Account, Token
from panel.services import tokens


@dataclass(frozen=True)
class Caller:
    """Somebody who was let in: a customer's token, or the platform's own."""

    token: Token
    account: Account | None

    @property
    def actor(self):
        """Who asked, for the history."""
        return self.account.email if self.account else f"API token {self.token.name}"


def can(permission):
    """Lets the view run only for a caller who holds the permission; default deny."""
    permissions.check(permission)
    enter = admin_caller if permission.startswith(("admin:", permissions.ANY_ADMIN)) else user_caller

    def guard(view):
        @functools.wraps(view)
        def guarded(*args, **kwargs):
            if permission != permissions.PUBLIC:
                g.caller = enter(permission)
                tokens.used(g.caller.token)
            return view(*args, **kwargs)

        return guarded

    return guard


def caller_of() -> Caller:
    return g.caller


def user_caller(permission):
    token = bearer()
    if token is None or token.account is None:
        raise Unauthenticated("The token is missing, unknown or no longer valid.")
    check_address(token)
    if permission != permissions.ANY_USER and permission not in token.scopes:
        raise Forbidden(f"The token's scope does not permit this action: it needs {permission}.")
    if token.account.suspended_at and not permission.endswith(":read") and permission != permissions.ANY_USER:
        raise Forbidden("The account is suspended. Contact support.", reason="account_suspended")
    return Caller(token, token.account)


def admin_caller(permission):
    if not request.headers.get("Authorization"):
        raise Forbidden("Unauthorized!")
    token = bearer()
    if token is None:
        raise Unauthenticated("Unauthorized!")
    if token.kind != "admin":
        raise Forbidden("Unauthorized")
    check_address(token)
    return Caller(token, None)


def bearer():
    """The usable token of this request, or None."""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    return tokens.find(value.strip()) if scheme.lower() == "bearer" and 20 < len(value) < 200 else None


def check_address(token):
    if token.allowed_ips and not any(source_address() in ipaddress.ip_network(net) for net in token.allowed_ips):
        raise Forbidden("The token may not be used from this address.")


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
