"""Passwords: changing one that is known, and choosing one by a mailed link."""

from datetime import timedelta

from panel.core import mail
from panel.core.errors import Invalid, NotFound
from panel.services import accounts, known_devices, one_time_tokens, security_notifications, sessions
from panel.services.one_time_tokens import PASSWORD_RESET
from panel.services.password_rules import ensure_strong_password

RESET_LINK_TTL = timedelta(minutes=60)
WRONG_PASSWORD_MESSAGE = "This is not your password."
NO_PASSWORD_MESSAGE = "You have no password yet. Set one by “Forgot your password?” on the sign-in page."


def ensure_correct(account, password, field="password"):
    """Raises when this is not the person's password."""
    if not accounts.is_password_correct(account, password):
        raise Invalid(
            "The password is wrong.",
            **{field: WRONG_PASSWORD_MESSAGE if account.password_hash else NO_PASSWORD_MESSAGE},
        )


def change(account, new, source, keep=None, field="password"):
    """Sets a new password, which came in `field`. Every session but `kept` ends: whoever knew the old one may be in one
    of them."""
    accounts.set_password(account, new, field)
    one_time_tokens.revoke_all(account, PASSWORD_RESET)
    sessions.revoke_others(account, keep)
    security_notifications.security_setting_changed(account, "Your password was changed", source)


def request_reset(email):
    """Has a link mailed to the address. Whether somebody has it is found out when the mail is sent, so that asking
    does the same work and takes the same time for everybody."""
    mail.send(email.strip().lower(), "password_reset")


def find_reset_context(email):
    """What the mail says, with a new link; None when nobody has the address. Older links go on: whoever asks again and
    again in somebody's name would end each before it is read."""
    account = accounts.find_by_email(email)
    if account is None:
        return None
    _, secret = one_time_tokens.create(account, PASSWORD_RESET, RESET_LINK_TTL)
    minutes = int(RESET_LINK_TTL.total_seconds() // 60)
    return {"email": account.email, "link": mail.page_url(f"/reset-password/{secret}"), "minutes": minutes}


def get_account(secret):
    """The account whose password this link may set."""
    link = one_time_tokens.find(secret, PASSWORD_RESET)
    if link is None:
        raise NotFound("This link was used, has expired or is not complete. Ask for a new one.")
    return link.account


def reset(secret, new, source, field="password"):
    """Uses the link up. The person still has to sign in, with the second factor if there is one. No browser that was
    known before it is known after it."""
    account = get_account(secret)
    ensure_strong_password(new, account.email, field)
    if one_time_tokens.consume(secret, PASSWORD_RESET) is None:
        raise NotFound("This link was used already. Ask for a new one.")
    known_devices.forget(account)
    change(account, new, source, field=field)
    return account
