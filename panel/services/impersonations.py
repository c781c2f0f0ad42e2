"""Acting as a customer: by a token (specification 5.9), or by looking at the panel with the customer's eyes."""

from datetime import timedelta

from panel.core import clock
from panel.core.errors import Forbidden, Invalid
from panel.schemas.constants import SCOPES
from panel.services import accounts, settings, tokens


def get_customer(account_id):
    """The person, if it is one that may be acted for: nobody gains an operator's rights this way."""
    account = accounts.get(account_id)
    if account.is_admin:
        raise Forbidden("This person runs the platform. Only customers can be impersonated.")
    return account


def get_lifetime(seconds=None):
    """How long an impersonation lasts: so many seconds, else what is set for the platform."""
    return timedelta(seconds=seconds or settings.get().impersonation_expires_in)


def create_token(account, *, issued_by, scopes=None, allowed_ips=None, expires_in=None):
    """A token that acts as the person, and its value. Without scopes it may do all that the person may, without
    addresses it may do so from everywhere."""
    return tokens.issue(
        "impersonation",
        name=f"Impersonation by {issued_by}"[:255],
        account=account,
        issued_by=issued_by[:255],
        scopes=tokens.sort_scopes(scopes or SCOPES),
        allowed_ips=allowed_ips or [],
        expires_at=clock.now() + get_lifetime(expires_in),
    )


def stop(token_id):
    """Ends the impersonation that goes on by this token."""
    token = tokens.get_any_owner(token_id)
    if token.kind != "impersonation":
        raise Invalid("This token is the person's own: there is no impersonation to stop.")
    tokens.revoke(token)
