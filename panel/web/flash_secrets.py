"""Secrets that the next page shows once. Until then they are stored, encrypted, in the browser's session cookie."""

from flask import session as cookie

from panel.core.db import EncryptedText

secret_type = EncryptedText()


def store(subject, secret):
    cookie["once"] = [subject, secret_type.process_bind_param(secret, None)]


def pop(subject):
    """Remove and return the secret that was stored for the subject, or None."""
    if cookie.get("once", [None])[0] != subject:
        return None
    return secret_type.process_result_value(cookie.pop("once")[1], None)
