"""Impersonation of a customer by an operator: with a token (IDT-54) or in the browser."""

from collections.abc import Collection
from datetime import timedelta

from panel.core import clock
from panel.core.errors import Forbidden, Invalid
from panel.core.messages import message
from panel.models import Account, Token
from panel.schemas.constants import SCOPES
from panel.services import accounts, settings, tokens


def get_customer(account_id: str) -> Account:
    """Return the account, if it may be impersonated. Raise for operators, so that nobody gains their rights this
    way."""
    account = accounts.get(account_id)
    if account.is_admin:
        raise Forbidden(message("This person is an operator. Only customers can be impersonated."))
    return account


def get_lifetime(seconds: int | None = None) -> timedelta:
    """Return how long an impersonation lasts: these seconds, else the platform's setting."""
    return timedelta(seconds=seconds or settings.get().impersonation_expires_in)


def create_token(
    account: Account,
    *,
    issued_by: str,
    scopes: Collection[str] | None = None,
    allowed_ips: list[str] | None = None,
    expires_in: int | None = None,
) -> tuple[Token, str]:
    """Create a token that acts as the person; return it with its value. Without scopes it may do everything that the
    person may, without `allowed_ips` from everywhere."""
    return tokens.issue(
        "impersonation",
        name=f"Impersonation by {issued_by}"[:255],
        account=account,
        issued_by=issued_by[:255],
        scopes=tokens.sort_scopes(scopes or SCOPES),
        allowed_ips=allowed_ips or [],
        expires_at=clock.now() + get_lifetime(expires_in),
    )


def stop(token_id: str) -> None:
    """End the impersonation by revoking its token."""
    token = tokens.get_any_owner(token_id)
    if token.kind != "impersonation":
        raise Invalid(message("This token is the person's own: there is no impersonation to stop."))
    tokens.revoke(token)
