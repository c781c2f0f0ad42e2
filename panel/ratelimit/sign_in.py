"""How often somebody may try to sign in: per source address and per account (decisions on NS-12).

A limit per account alone would let anybody lock its owner out. So a browser that the person has signed in with before
has a budget of its own, and a passkey, which cannot be guessed, counts for the address only.
"""

import ipaddress
from hashlib import sha256

from panel.core.errors import TooMany
from panel.ratelimit import windows
from panel.services import settings
from panel.web.formatting import duration

CODES_PER_MINUTE, CODES_PER_DAY = 5, 50
"""A code has six digits, of which three sets count at a time. Who knows the password and guesses all day long is right
once in eighteen years; until then the person's own browsers and recovery codes still open the account."""
DAY_SECONDS = 86_400
MAILS_PER_MINUTE = 2
"""Mails that one address may be sent, whoever asks."""


def password_attempt(source, email, device):
    """Counts one attempt with an email address and a password."""
    if device:
        return consume("password by device", device.id)
    consume("password by address", network_key(source.ip))
    consume("password by account", email_digest(email))


def code_attempt(account, device):
    """Counts one attempt of a second step, which only somebody gets to who knows the password."""
    who = device.id if device else account.id
    consume("code", who, CODES_PER_MINUTE)
    consume("code by day", who, CODES_PER_DAY, DAY_SECONDS)


def recovery_code_attempt(source):
    """Nobody guesses one of these, so trying counts for the address and shuts nobody else out."""
    consume("recovery code by address", network_key(source.ip))


def passkey_attempt(source):
    consume("passkey by address", network_key(source.ip))


def password_reset_mail(source, email):
    """Counts one wish for a mail. Returns whether it is to be sent: who asks does not learn that it was not."""
    consume("link by address", network_key(source.ip))
    return windows.hit("link by account", email_digest(email), MAILS_PER_MINUTE).allowed


def reauthentication(sign_in_id):
    """Counts one attempt of somebody who is signed in to confirm who they are."""
    consume("own password", sign_in_id)


def consume(budget, key, maximum=None, seconds=windows.MINUTE_SECONDS):
    window = windows.hit(budget, key, maximum or settings.get().rate_limit_sign_in, seconds)
    if not window.allowed:
        raise TooMany(f"Too many attempts. Wait {duration(window.reset)} and try again.", seconds=window.reset)


def network_key(ip):
    return windows.rate_limit_network(ipaddress.ip_address(ip))


def email_digest(email):
    """Addresses are not to be read in Redis."""
    return sha256(email.strip().lower().encode()).hexdigest()[:32]
