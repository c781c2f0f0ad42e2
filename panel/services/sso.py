"""Links by which a billing system sends its customers to their pages, signed in. Each works once, for a short time."""

from datetime import timedelta

from panel.core import mail
from panel.core.errors import Conflict, NotFound
from panel.services import accounts, one_time_tokens

SSO_PURPOSE = "sso"
LINK_CLOSED_MESSAGE = (
    "This link was used, has expired or is not complete. Go back to where you came from and open it anew."
)


def create_link(account, *, expires_in, redirect_to):
    """The address to send the browser to, and until when it works. Operators sign in by themselves: a billing system
    must not become one."""
    if account.is_admin:
        raise Conflict("There are no sign-in links for operators.")
    link, secret = one_time_tokens.create(account, SSO_PURPOSE, timedelta(seconds=expires_in), redirect_to)
    return {"url": mail.page_url(f"/sso/{secret}"), "expires_at": link.expires_at}


def get_account(secret):
    """Whom the link signs in. Looking does not use it."""
    link = one_time_tokens.find(secret, SSO_PURPOSE)
    if link is None:
        raise NotFound(LINK_CLOSED_MESSAGE)
    return link.account


def redeem(secret):
    """The account that is to be signed in, and the page to go on to. The link works no more."""
    link = one_time_tokens.consume(secret, SSO_PURPOSE)
    account = link and accounts.get(link.account_id)
    if account is None or account.is_admin:
        raise NotFound(LINK_CLOSED_MESSAGE)
    return account, link.leads_to
