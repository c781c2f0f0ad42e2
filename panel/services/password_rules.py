"""What a password of an account must be. Guests' passwords are not judged."""

import re

from zxcvbn import zxcvbn

from panel.core.errors import Invalid
from panel.schemas.constants import PASSWORD_MAX_LENGTH, PASSWORD_MIN_LENGTH

MAX_JUDGED_LENGTH = 72
"""How many characters of a password the estimate reads: it takes longer for longer ones."""
MIN_GUESSES = 10**6
"""Below are the most common passwords, names, sequences, repeated characters, and small changes of them."""
OWN_PART_MIN_LENGTH = 3
"""Shorter parts of an email address are in many passwords by chance."""
TOO_COMMON_MESSAGE = "This password is easy to guess. Do not use a common password, a pattern or your email address."


def ensure_strong_password(password, email, field="password"):
    """Refuse a password that is too short, common, repetitive or made of the person's email address."""
    if not PASSWORD_MIN_LENGTH <= len(password) <= PASSWORD_MAX_LENGTH:
        sentence = f"A password has {PASSWORD_MIN_LENGTH} to {PASSWORD_MAX_LENGTH} characters."
        raise Invalid(sentence, **{field: sentence})
    if is_easy_to_guess(password, email):
        raise Invalid(TOO_COMMON_MESSAGE, **{field: TOO_COMMON_MESSAGE})


def is_easy_to_guess(password, email):
    """Estimate the guesses that an attacker needs who knows the address and the lists of common passwords."""
    address = email.strip().lower()
    parts = {address, *address.split("@"), *re.split(r"[^a-z0-9]+", address)}
    own = sorted((part for part in parts if len(part) >= OWN_PART_MIN_LENGTH), key=len, reverse=True)
    remaining = password.lower()
    for part in own:
        remaining = remaining.replace(part, "")
    if len(remaining) < min(len(password), PASSWORD_MIN_LENGTH // 2):
        return True
    return zxcvbn(password[:MAX_JUDGED_LENGTH], user_inputs=own)["guesses"] < MIN_GUESSES
