"""Passwords: changing one that is known, and choosing one by a mailed link."""

from datetime import timedelta

from panel.core import mail
from panel.core.errors import Invalid, NotFound
from panel.services import accounts, known_devices, one_time_tokens, security_notifications, sessions
from panel.services.one_time_tokens import RESET
from panel.services.password_rules import refuse_weak_password

LINK_LIVES = timedelta(minutes=60)
WRONG = "This is not your password."
NONE_YET = "You have no password yet. Set one by “Forgot your password?” on the sign-in page."


def check(account, password, field="password"):
    """Raises when this is not the person's password."""
    if not accounts.has_password(account, password):
        raise Invalid("The password is wrong.", **{field: WRONG if account.password_hash else NONE_YET})


def change(account, new, source, kept=None, field="password"):
    """Sets a new password, which came in `field`. Every session but `kept` ends: whoever knew the old one may be in one
    of them."""
    accounts.set_password(account, new, field)
    one_time_tokens.end(account, RESET)
    sessions.end_others(account, kept)
    security_notifications.changed(account, "Your password was changed", source)


def ask_to_reset(email):
    """Has a link mailed to the address. Whether somebody has it is found out when the mail is sent, so that asking
    does the same work and takes the same time for everybody."""
    mail.send(email.strip().lower(), "password_reset")


def reset_facts(email):
    """What the mail says, with a new link; None when nobody has the address. Older links go on: whoever asks again and
    again in somebody's name would end each before it is read."""
    account = accounts.by_email(email)
    if account is None:
        return None
    _, secret = one_time_tokens.make(account, RESET, LINK_LIVES)
    minutes = int(LINK_LIVES.total_seconds() // 60)
    return {"email": account.email, "link": mail.address(f"/reset-password/{secret}"), "minutes": minutes}


def opened(secret):
    """The account whose password this link may set."""
    link = one_time_tokens.find(secret, RESET)
    if link is None:
        raise NotFound("This link was used, has expired or is not complete. Ask for a new one.")
    return link.account


def reset(secret, new, source, field="password"):
    """Uses the link up. The person still has to sign in, with the second factor if there is one. No browser that was
    known before it is known after it."""
    account = opened(secret)
    refuse_weak_password(new, account.email, field)
    if one_time_tokens.use(secret, RESET) is None:
        raise NotFound("This link was used already. Ask for a new one.")
    known_devices.forget(account)
    change(account, new, source, field=field)
    return account
