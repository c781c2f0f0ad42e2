"""A request with an `Idempotency-Key` that is sent again is not carried out again: it gets the answer of the first."""

from functools import wraps
from hashlib import sha256

from flask import current_app, g, request

from panel.core.errors import Invalid
from panel.services import idempotency

IDEMPOTENCY_HEADER = "Idempotency-Key"
IDEMPOTENCY_PARAMETER = {
    "in": "header",
    "name": IDEMPOTENCY_HEADER,
    "description": "At most 255 characters. When an answer got lost, send the same request again with the same key "
    "within 24 hours: it is carried out once and answered alike. Another request with that key is refused with 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "examples": ["order-1042"]},
}


def get_key():
    """The request's key, if it has one."""
    sent = request.headers.get(IDEMPOTENCY_HEADER)
    if sent is not None and not (0 < len(sent) <= 255 and sent.isascii() and sent.isprintable()):
        raise Invalid(f"The {IDEMPOTENCY_HEADER} must be 1 to 255 printable ASCII characters.")
    return sent


def idempotent(view):
    @wraps(view)
    def answered(*args, **kwargs):
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

    return answered


def request_fingerprint():
    """What the request says, in one hash."""
    return sha256(b"\n".join((request.full_path.encode(), request.get_data()))).hexdigest()
