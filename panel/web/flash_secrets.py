"""Secrets that the next page shows once. Until then they are stored, encrypted, in the browser's session cookie."""

from flask import session as cookie

from panel.core.db import decrypt, encrypt


def store(subject, secret):
    cookie["once"] = [subject, encrypt(secret)]


def pop(subject):
    """Remove and return the secret that was stored for the subject, or None."""
    if cookie.get("once", [None])[0] != subject:
        return None
    return decrypt(cookie.pop("once")[1])
