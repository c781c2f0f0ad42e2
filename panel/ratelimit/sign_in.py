"""Rate limits of signing in: per source address and per account (decisions on NS-12).

A limit per account alone would let anybody lock its owner out. So a known device has its own budget, and passkeys,
which cannot be guessed, count for the address only.
"""

import ipaddress
from hashlib import sha256

from panel.core.errors import TooMany
from panel.core.formatting import format_duration
from panel.core.messages import message
from panel.ratelimit import windows
from panel.services import settings

CODES_PER_MINUTE, CODES_PER_DAY = 5, 50
"""A code has six digits, and three codes are valid at a time. An attacker who knows the password and uses the whole
budget every day guesses one in about eighteen years. The owner's known devices and recovery codes have separate
budgets."""
DAY_SECONDS = 86_400
MAILS_PER_MINUTE = 2
"""The most password reset mails to one address, from all sources together."""


def consume_password_attempt(source, email, device):
    """Count one attempt with an email address and a password: for a known device on its own, else for the source
    address and the account. Raise TooMany, like all functions here that count."""
    if device:
        return consume("password by device", device.id)
    consume("password by address", make_network_key(source.ip))
    consume("password by account", make_email_digest(email))


def consume_code_attempt(account, device):
    """Count one attempt with a code of an authenticator, after the right password."""
    key = device.id if device else account.id
    consume("code", key, CODES_PER_MINUTE)
    consume("code by day", key, CODES_PER_DAY, DAY_SECONDS)


def consume_recovery_code_attempt(source):
    """Count one attempt with a recovery code. These cannot be guessed, so only the source address is limited."""
    consume("recovery code by address", make_network_key(source.ip))


def consume_passkey_attempt(source):
    consume("passkey by address", make_network_key(source.ip))


def consume_password_reset_mail(source, email):
    """Count one request for a password reset mail. Return whether to send it; the answer does not show it."""
    consume("link by address", make_network_key(source.ip))
    return windows.count_use("link by account", make_email_digest(email), MAILS_PER_MINUTE).allowed


def consume_reauthentication(sign_in_id):
    """Count one attempt of a signed-in person to confirm their password."""
    consume("own password", sign_in_id)


def consume(budget, key, maximum=None, seconds=windows.MINUTE_SECONDS):
    window = windows.count_use(budget, key, maximum or settings.get().rate_limit_sign_in, seconds)
    if not window.allowed:
        raise TooMany(
            message("Too many attempts. Wait {duration} and try again.", duration=format_duration(window.reset)),
            seconds=window.reset,
        )


def make_network_key(ip):
    return windows.get_rate_limit_network(ipaddress.ip_address(ip))


def make_email_digest(email):
    """Return a hash of the email address, so that Redis holds no readable addresses."""
    return sha256(email.strip().lower().encode()).hexdigest()[:32]
