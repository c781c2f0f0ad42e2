"""Secrets that the next page shows once. Until then the browser carries them, encrypted, in its session cookie."""

from flask import session as cookie

from panel.core.db import Secret

sealed = Secret()


def keep(about, secret):
    cookie["once"] = [about, sealed.process_bind_param(secret, None)]


def take(about):
    """The secret that was kept for this, or None; it cannot be taken again."""
    if cookie.get("once", [None])[0] != about:
        return None
    return sealed.process_result_value(cookie.pop("once")[1], None)
