"""A request with an `Idempotency-Key` that is sent again is not carried out again: it gets the answer of the first."""

from functools import wraps
from hashlib import sha256

from flask import current_app, g, request

from panel.core.errors import Invalid
from panel.services import idempotency

HEADER = "Idempotency-Key"
DOCUMENTED = {
    "in": "header",
    "name": HEADER,
    "description": "At most 255 characters. When an answer got lost, send the same request again with the same key "
    "within 24 hours: it is carried out once and answered alike. Another request with that key is refused with 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "examples": ["order-1042"]},
}


def key():
    """The request's key, if it has one."""
    sent = request.headers.get(HEADER)
    if sent is not None and not (0 < len(sent) <= 255 and sent.isascii() and sent.isprintable()):
        raise Invalid(f"The {HEADER} must be 1 to 255 printable ASCII characters.")
    return sent


def once(view):
    @wraps(view)
    def answered(*args, **kwargs):
        if key() is None or "caller" not in g:
            return view(*args, **kwargs)
        row = idempotency.begin(g.caller.token_id, key(), asked())
        if row.status:
            g.repeated = True
            return current_app.response_class(
                row.answer, row.status, {"Idempotency-Replayed": "true"}, mimetype="application/json"
            )
        response = current_app.make_response(view(*args, **kwargs))
        row.status, row.answer = response.status_code, response.get_data(as_text=True)
        return response

    return answered


def asked():
    """What the request says, in one hash."""
    return sha256(b"\n".join((request.full_path.encode(), request.get_data()))).hexdigest()
