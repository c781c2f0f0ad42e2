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

VALUE_FIELD = fields.String(**describe("The value, in this answer and nowhere else.", "pu_3kX9aW…"))
FAMILY_LIST = fields.List(fields.Nested(FamilyOut), **describe("The families."))


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

    A member of a team sees the member's own. The owner sees the owner's, and those that members made before 3.3.0.
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
    """Make an API token.

    It acts as the person who makes it. It cannot have more scopes than the token that asks for it, work from more
    addresses or last longer; addresses and end that are left out are those of the token that asks.
    """
    token, value = tokens.create(kit.get_current_access(), requesting_token=get_asking_token(), **body)
    return {"message": "Keep the token: it is not shown again.", "token": value, "api_token": token}


@user.get(
    "/api-token/<token_id>", op="get", can=permissions.ANY_USER, out=kit.build_wrapped_schema("api_token", TokenOut)
)
def show(token_id):
    """Show an API token."""
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
    """Rename or narrow an API token.

    Scopes can only become fewer and the end only earlier, in the future; what would do more needs a new token. The
    addresses can be replaced.
    """
    token = tokens.update(tokens.get(token_id, kit.get_current_access()), get_asking_token(), **body)
    return {"message": "The token is changed.", "api_token": tokens.refresh_last_used([token])[0]}


@user.delete("/api-token/<token_id>", op="delete", can=permissions.PERSONAL, out=kit.build_result_schema())
def revoke(token_id):
    """Revoke an API token.

    It is dead from the next request on.
    """
    tokens.revoke(tokens.get(token_id, kit.get_current_access()))
    return {"message": "The token is revoked."}


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
    """End the impersonation that this token is.

    The token is dead from the next request on. Other tokens are refused with 422.
    """
    impersonations.stop(g.caller.token_id)
    return {"message": "The impersonation is over."}


@admin.get(
    "/api-tokens",
    op="list",
    can="admin:tokens:read",
    query=PlatformTokenQuery,
    out=kit.build_admin_page_schema(PlatformTokenOut),
)
def list_platform(query):
    """List the tokens of the admin and billing APIs, newest first.

    They are made on the management server: `panel token admin`, `panel token billing`.
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
    """List the tokens of a user, impersonations included, newest first.

    Values are never shown again. 404 when there is no such user.
    """
    rows = kit.paginate(tokens.select_of_account(accounts.get(account_id)))
    return refresh_last_used(rows, "__rows__")


@admin.patch("/api-token/<token_id>", op="update", can="admin:tokens:write", body=PlatformTokenPatch)
def set_enabled(body, token_id):
    """Switch a token of anybody off or on.

    One that is off answers 401 until it is switched on. 404 for an unknown token.
    """
    tokens.set_enabled(tokens.get_any_owner(token_id), body["enabled"])
    kit.set_message("The token is on." if body["enabled"] else "The token is off.")


@admin.delete("/api-token/<token_id>", op="delete", can="admin:tokens:write")
def remove(token_id):
    """Revoke a token of anybody.

    It counts at once and cannot be undone. 404 for an unknown token. Admin and billing tokens are made on the server
    only.
    """
    tokens.revoke(tokens.get_any_owner(token_id))
    kit.set_message("The token is revoked.")
