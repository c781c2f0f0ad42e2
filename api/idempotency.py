"""`Idempotency-Key`: a repeated request is not executed again and gets the stored response of the first."""

from functools import wraps
from hashlib import sha256

from flask import current_app, g, request

from panel.core.errors import Invalid
from panel.services import idempotency

IDEMPOTENCY_HEADER = "Idempotency-Key"
IDEMPOTENCY_PARAMETER = {
    "in": "header",
    "name": IDEMPOTENCY_HEADER,
    "description": "At most 255 characters. If a response was lost, repeat the request with the same key within 24 "
    "hours: it is executed once and gets the same response. Another request with the same key returns 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "examples": ["order-1042"]},
}


def get_key():
    """Return the request's key or None. Raises Invalid when it is malformed."""
    key = request.headers.get(IDEMPOTENCY_HEADER)
    if key is not None and not (0 < len(key) <= 255 and key.isascii() and key.isprintable()):
        raise Invalid(f"The {IDEMPOTENCY_HEADER} must be 1 to 255 printable ASCII characters.")
    return key


def idempotent(view):
    @wraps(view)
    def wrapper(*args, **kwargs):
        if get_key() is None or "caller" not in g:
            return view(*args, **kwargs)
        row = idempotency.get_or_create(g.caller.token_id, get_key(), request_fingerprint())
        if row.status:
            g.repeated = True
            return current_app.response_class(
                row.answer, row.status, {"Idempotency-Replayed": "true"}, mimetype="application/json"
            )
        response = current_app.make_response(view(*args, **kwargs))
        row.status, row.answer = response.status_code, response.get_data(as_text=True)
        return response

    return wrapper


def request_fingerprint():
    """Return a hash of the request's path, query and body."""
    return sha256(b"\n".join((request.full_path.encode(), request.get_data()))).hexdigest()
