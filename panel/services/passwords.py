"""Passwords: change a known one, and reset a forgotten one by a mailed link."""

from datetime import timedelta
from typing import Any

from panel.core import mail
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, LoginSession
from panel.services import accounts, known_devices, one_time_tokens, security_notifications, sessions
from panel.services.one_time_tokens import PASSWORD_RESET
from panel.services.password_rules import ensure_strong_password
from panel.services.security_notifications import Source

RESET_LINK_TTL = timedelta(minutes=60)
WRONG_PASSWORD_MESSAGE = message("This is not your password.")
NO_PASSWORD_MESSAGE = message("You have no password yet. Set one by “Forgot your password?” on the sign-in page.")


def ensure_correct(account: Account, password: str, error_field: str = "password") -> None:
    """Raise Invalid if this is not the person's password."""
    if not accounts.is_password_correct(account, password):
        raise Invalid(
            message("The password is wrong."),
            **{error_field: WRONG_PASSWORD_MESSAGE if account.password_hash else NO_PASSWORD_MESSAGE},
        )


def change(
    account: Account, new_password: str, source: Source, keep: LoginSession | None = None, error_field: str = "password"
) -> None:
    """Set a new password; errors are for the request's `error_field`.

    All sessions except `keep` end, because somebody who knew the old password may use them.
    """
    accounts.set_password(account, new_password, error_field)
    one_time_tokens.revoke_all(account, PASSWORD_RESET)
    sessions.revoke_others(account, keep)
    security_notifications.send_setting_change(account, message("Your password was changed"), source)


def request_reset(email: str) -> None:
    """Enqueue a mail with a reset link.

    Whether the address has an account is checked when the mail is sent, so the response and its duration do not reveal
    it.
    """
    mail.send(email.strip().lower(), "password_reset")


def find_reset_context(email: str) -> dict[str, Any] | None:
    """Return the mail's values with a new link; None if no account has the address.

    Older links stay valid: otherwise repeated requests by a third party would invalidate each before it is read.
    """
    account = accounts.find_by_email(email)
    if account is None:
        return None
    _, secret = one_time_tokens.create(account, PASSWORD_RESET, RESET_LINK_TTL)
    minutes = int(RESET_LINK_TTL.total_seconds() // 60)
    return {"email": account.email, "link": f"/reset-password/{secret}", "minutes": minutes}


def get_account(secret: str) -> Account:
    """Return the account whose password this link may set."""
    link = one_time_tokens.find(secret, PASSWORD_RESET)
    if link is None:
        raise NotFound(message("This link was used, has expired or is incomplete. Request a new one."))
    return link.account


def reset(secret: str, new_password: str, source: Source, error_field: str = "password") -> Account:
    """Set a new password and use the link up.

    The person still has to sign in, with the second factor if there is one. All known devices are forgotten.
    """
    account = get_account(secret)
    ensure_strong_password(new_password, account.email, error_field)
    if one_time_tokens.consume(secret, PASSWORD_RESET) is None:
        raise NotFound(message("This link was already used. Request a new one."))
    known_devices.forget(account)
    change(account, new_password, source, error_field=error_field)
    return account
