"""Sign-in links for customers, created by a billing system. Each works once and expires soon."""

from datetime import timedelta
from typing import Any

from panel.core.errors import Conflict, NotFound
from panel.core.messages import message
from panel.models import Account
from panel.services import accounts, brands, one_time_tokens

SSO_PURPOSE = "sso"
LINK_CLOSED_MESSAGE = message(
    "This link was used, has expired or is incomplete. Go back to where you came from and open it again."
)


def create_link(account: Account, *, expires_in: int, redirect_to: str | None) -> dict[str, Any]:
    """Return the URL for the browser and when it expires.

    Operators are refused, because a billing system must not gain their rights.
    """
    if account.is_admin:
        raise Conflict(message("There are no sign-in links for operators."))
    link, secret = one_time_tokens.create(account, SSO_PURPOSE, timedelta(seconds=expires_in), redirect_to)
    return {"url": f"{brands.find_by_id(account.brand_id).url}/sso/{secret}", "expires_at": link.expires_at}


def get_account(secret: str) -> Account:
    """Return the account that the link signs in, without using the link up."""
    link = one_time_tokens.find(secret, SSO_PURPOSE)
    if link is None:
        raise NotFound(LINK_CLOSED_MESSAGE)
    return link.account


def redeem(secret: str) -> tuple[Account, str | None]:
    """Use the link up. Return the account to sign in and the page to open."""
    link = one_time_tokens.consume(secret, SSO_PURPOSE)
    if link is None or (account := accounts.get(link.account_id)).is_admin:
        raise NotFound(LINK_CLOSED_MESSAGE)
    return account, link.redirect_to
