"""Keys of the sandbox API: from the header to a principal, and the check on every route of that API."""

import functools

from flask import g, request

from panel.auth import permissions
from panel.auth.tokens import ApiPrincipal, RouteRequirement, find_credential, get_anonymous_budget_key, record_use
from panel.core.errors import Forbidden, Unauthenticated
from panel.core.messages import message
from panel.ratelimit import api_budget
from panel.services import microvm_api_keys, tokens

KEY_HEADER = "X-API-Key"
CACHE_PREFIX = "sandbox:"
"""Keeps keys apart from bearer tokens in the cache of both (panel.services.token_cache)."""
BUDGET = "requests"


def requires_sandbox_key(permission, operation):
    """Decorate a view so that it runs only for requests with an active key.

    `permission` is what the key's account needs, or PUBLIC. `operation` is the action in the audit log.
    """
    permissions.validate_permission(permission)
    requirement = RouteRequirement(permission, None, None)

    def guard(view):
        @functools.wraps(view)
        def guarded(*args, **kwargs):
            if permission == permissions.PUBLIC:
                api_budget.consume(BUDGET, get_anonymous_budget_key())
            else:
                g.operation, g.caller = operation, authorize_key()
            return view(*args, **kwargs)

        guarded.requirement, guarded.budget = requirement, BUDGET
        return guarded

    return guard


def authorize_key():
    """Return the principal of this request. A key has all permissions of its API, except on a suspended account."""
    key = find_key()
    if key is None:
        raise Unauthenticated(message("Invalid API key"))
    record_use(key)
    access = microvm_api_keys.build_access(key)
    if access.suspended and request.method not in permissions.READ_METHODS:
        raise Forbidden(message("The account is suspended. Contact support."), reason="account_suspended")
    return ApiPrincipal(key.id, "sandbox", key.name, access)


def find_key():
    """Return the active key of this request, or None. Count the request. Raise TooMany."""
    value = request.headers.get(KEY_HEADER, "").strip()
    cache_key = CACHE_PREFIX + tokens.hash_secret(value)
    return find_credential(BUDGET, value, cache_key, microvm_api_keys.find_by_value)
