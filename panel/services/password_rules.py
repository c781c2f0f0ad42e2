"""Rules for passwords of accounts. Guests' passwords are not checked."""

import re

from zxcvbn import zxcvbn

from panel.core.errors import Invalid
from panel.core.messages import message
from panel.schemas.constants import PASSWORD_MAX_LENGTH, PASSWORD_MIN_LENGTH

MAX_JUDGED_LENGTH = 72
"""How many characters of a password are used for the estimate, whose duration grows with the length."""
MIN_GUESSES = 10**6
"""The most common passwords, names, sequences, repeated characters, and small changes of them need fewer guesses."""
OWN_PART_MIN_LENGTH = 3
"""Shorter parts of an email address occur in many passwords by chance."""
TOO_COMMON_MESSAGE = message(
    "This password is easy to guess. Do not use a common password, a pattern or your email address."
)


def ensure_strong_password(password: str, email: str, error_field: str = "password") -> None:
    """Raise Invalid for a password that is too short, common, repetitive or made of the person's email address."""
    if not PASSWORD_MIN_LENGTH <= len(password) <= PASSWORD_MAX_LENGTH:
        sentence = message(
            "A password has {minimum} to {maximum} characters.",
            minimum=PASSWORD_MIN_LENGTH,
            maximum=PASSWORD_MAX_LENGTH,
        )
        raise Invalid(sentence, **{error_field: sentence})
    if is_easy_to_guess(password, email):
        raise Invalid(TOO_COMMON_MESSAGE, **{error_field: TOO_COMMON_MESSAGE})


def is_easy_to_guess(password: str, email: str) -> bool:
    """Return whether an attacker who knows the address and lists of common passwords needs few guesses."""
    address = email.strip().lower()
    parts = {address, *address.split("@"), *re.split(r"[^a-z0-9]+", address)}
    own = sorted((part for part in parts if len(part) >= OWN_PART_MIN_LENGTH), key=len, reverse=True)
    remaining = password.lower()
    for part in own:
        remaining = remaining.replace(part, "")
    if len(remaining) < min(len(password), PASSWORD_MIN_LENGTH // 2):
        return True
    return zxcvbn(password[:MAX_JUDGED_LENGTH], user_inputs=own)["guesses"] < MIN_GUESSES
