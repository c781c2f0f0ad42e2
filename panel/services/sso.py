"""Links by which a billing system sends its customers to their pages, signed in. Each works once, for a short time."""

from datetime import timedelta

from panel.core import mail
from panel.core.errors import Conflict, NotFound
from panel.services import accounts, one_time_tokens

SSO = "sso"
CLOSED = "This link was used, has expired or is not complete. Go back to where you came from and open it anew."


def make(account, *, expires_in, leads_to):
    """The address to send the browser to, and until when it works. Operators sign in by themselves: a billing system
    must not become one."""
    if account.is_admin:
        raise Conflict("There are no sign-in links for operators.")
    link, secret = one_time_tokens.make(account, SSO, timedelta(seconds=expires_in), leads_to)
    return {"url": mail.address(f"/sso/{secret}"), "expires_at": link.expires_at}


def opened(secret):
    """Whom the link signs in. Looking does not use it."""
    link = one_time_tokens.find(secret, SSO)
    if link is None:
        raise NotFound(CLOSED)
    return link.account


def use(secret):
    """The account that is to be signed in, and the page to go on to. The link works no more."""
    link = one_time_tokens.use(secret, SSO)
    account = link and accounts.get(link.account_id)
    if account is None or account.is_admin:
        raise NotFound(CLOSED)
    return account, link.leads_to
