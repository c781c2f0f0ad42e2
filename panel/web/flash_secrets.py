"""Secrets that the next page shows once. Until then the browser carries them, encrypted, in its session cookie."""

from flask import session as cookie

from panel.core.db import EncryptedText

secret_type = EncryptedText()


def store(subject, secret):
    cookie["once"] = [subject, secret_type.process_bind_param(secret, None)]


def pop(subject):
    """The secret that was kept for this, or None; it cannot be taken again."""
    if cookie.get("once", [None])[0] != subject:
        return None
    return secret_type.process_result_value(cookie.pop("once")[1], None)
