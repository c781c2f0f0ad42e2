"""API tokens: a customer's own, and all tokens for operators."""

from flask import g
from marshmallow import fields

from api import kit
from panel.auth import permissions
from panel.schemas.base import describe
from panel.schemas.constants import SCOPE_FAMILIES
from panel.schemas.tokens import (
    AccountTokenOut,
    FamilyOut,
    PlatformTokenOut,
    PlatformTokenPatch,
    PlatformTokenQuery,
    TokenIn,
    TokenOut,
    TokenPatch,
    TokenQuery,
)
from panel.services import accounts, impersonations, tokens
from panel.web.audit_view import audit_label

user = kit.User("token", __name__, description="API tokens")
admin = kit.Admin("token", __name__, description="API tokens")

VALUE_FIELD = fields.String(**describe("The token. Only returned in this response.", "pu_3kX9aW…"))
FAMILY_LIST = fields.List(fields.Nested(FamilyOut), **describe("The scope families."))


def get_asking_token():
    """Return the request's own token. A new token can get no more rights than it has."""
    return tokens.get_any_owner(g.caller.token_id)


def refresh_last_used(page, rows="data"):
    tokens.refresh_last_used(page[rows])
    return page


@user.get("/api-token-scopes", op="scopes", can=permissions.ANY_USER, out=kit.build_result_schema(data=FAMILY_LIST))
def scopes():
    """List the scope families."""
    families = [
        {"family": name, "description": opens, "scopes": [f"{name}:read", f"{name}:write"]}
        for name, opens in SCOPE_FAMILIES.items()
    ]
    return {"message": None, "data": families}


@user.get("/api-tokens", op="list", can=permissions.ANY_USER, query=TokenQuery, out=kit.build_page_schema(TokenOut))
def listing(query):
    """List API tokens, newest first.

    Team members see their own tokens. The owner sees their own tokens and those that members created before 3.3.0.
    """
    kinds = ("user", "impersonation") if query.pop("include", None) else ("user",)
    return refresh_last_used(kit.paginate(tokens.listing(kit.get_current_access(), kinds)))


@user.post(
    "/api-tokens",
    op="create",
    can="api_tokens.manage",
    body=TokenIn,
    out=kit.build_result_schema(
        token=VALUE_FIELD, api_token=fields.Nested(TokenOut, **describe("The token without its value."))
    ),
)
def create(body):
    """Create an API token.

    The token acts as its creator. It cannot have more scopes, more addresses or a later expiry than the token used for
    the request; without `allowed_ips` or `expires_at` it gets those of that token.
    """
    token, value = tokens.create(kit.get_current_access(), requesting_token=get_asking_token(), **body)
    return {
        "message": "API token created. Copy it now. It will not be shown again.",
        "token": value,
        "api_token": token,
    }


@user.get(
    "/api-token/<token_id>", op="get", can=permissions.ANY_USER, out=kit.build_wrapped_schema("api_token", TokenOut)
)
def show(token_id):
    """Get an API token."""
    token = tokens.get(token_id, kit.get_current_access())
    return {"message": None, "api_token": tokens.refresh_last_used([token])[0]}


@user.patch(
    "/api-token/<token_id>",
    op="update",
    can="api_tokens.manage",
    body=TokenPatch,
    out=kit.build_wrapped_schema("api_token", TokenOut),
)
def update(body, token_id):
    """Rename or restrict an API token.

    Scopes can only be removed, and the expiry can only be moved to an earlier time in the future; for more rights,
    create a new token. `allowed_ips` can be replaced.
    """
    token = tokens.update(tokens.get(token_id, kit.get_current_access()), get_asking_token(), **body)
    return {"message": "API token updated.", "api_token": tokens.refresh_last_used([token])[0]}


@user.delete("/api-token/<token_id>", op="delete", can=permissions.PERSONAL, out=kit.build_result_schema())
def revoke(token_id):
    """Revoke an API token.

    Takes effect immediately.
    """
    tokens.revoke(tokens.get(token_id, kit.get_current_access()))
    return {"message": "API token revoked."}


@user.post(
    "/profile/impersonation/stop",
    op="stop",
    can=permissions.ANY_USER,
    unscoped_kind="impersonation",
    out=kit.build_result_schema(),
)
@user.doc(responses={422: "Invalid"})
@audit_label("Stop acting as the customer")
def stop():
    """End the impersonation of this token.

    The token is revoked immediately. Returns 422 for a token that is not an impersonation.
    """
    impersonations.stop(g.caller.token_id)
    return {"message": "Impersonation ended."}


@admin.get(
    "/api-tokens",
    op="list",
    can="admin:tokens:read",
    query=PlatformTokenQuery,
    out=kit.build_admin_page_schema(PlatformTokenOut),
)
def list_platform(query):
    """List the tokens of the admin and billing APIs, newest first.

    Create them on the management server with `panel token admin` or `panel token billing`.
    """
    rows = kit.paginate(tokens.select_platform(query.pop("kind", None)))
    return refresh_last_used(rows, "__rows__")


@admin.get(
    "/user/<account_id>/api-tokens",
    op="list_by_user",
    can="admin:tokens:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AccountTokenOut),
)
def list_by_user(account_id):
    """List the tokens of a user, including impersonations, newest first.

    Token values are never shown again. Returns 404 if the user does not exist.
    """
    rows = kit.paginate(tokens.select_of_account(accounts.get(account_id)))
    return refresh_last_used(rows, "__rows__")


@admin.patch("/api-token/<token_id>", op="update", can="admin:tokens:write", body=PlatformTokenPatch)
def set_enabled(body, token_id):
    """Enable or disable any token.

    A disabled token returns 401 until it is enabled again. Returns 404 if the token does not exist.
    """
    tokens.set_enabled(tokens.get_any_owner(token_id), body["enabled"])
    kit.set_message("API token enabled." if body["enabled"] else "API token disabled.")


@admin.delete("/api-token/<token_id>", op="delete", can="admin:tokens:write")
def remove(token_id):
    """Revoke any token.

    Takes effect immediately and cannot be undone. New admin and billing tokens can only be created on the management
    server. Returns 404 if the token does not exist.
    """
    tokens.revoke(tokens.get_any_owner(token_id))
    kit.set_message("API token revoked.")
