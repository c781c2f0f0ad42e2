"""Access tokens and signatures of file URLs."""

import base64
import hashlib
import hmac
import time

from .errors import HttpError
from .http_messages import Request
from .identity import Identity

OPERATION_BY_METHOD = {"GET": "read", "POST": "write"}


def has_valid_token(request: Request, identity: Identity) -> bool:
    """Return whether the request has the access token."""
    token = request.headers.get("x-access-token", "")
    return hmac.compare_digest(token.encode(), identity.access_token.encode())


def ensure_token(request: Request, identity: Identity) -> None:
    if not has_valid_token(request, identity):
        raise HttpError(401, "the access token is missing or not valid")


def make_signature(path: str, operation: str, username: str, token: str, expiration: int | None) -> str:
    text = f"{path}:{operation}:{username}:{token}"
    if expiration is not None:
        text += f":{expiration}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return "v1_" + base64.b64encode(digest).decode().rstrip("=")


def ensure_token_or_signature(request: Request, identity: Identity) -> None:
    """Accept the access token, or a signature of this path, operation and user that has not expired."""
    if has_valid_token(request, identity):
        return
    query = request.query
    # A plus sign that was not percent-encoded arrives as a space, which is not in the alphabet of base64.
    signature = query.get("signature", "").replace(" ", "+")
    if not signature:
        raise HttpError(401, "the access token or a signature is required")
    expiration_text = query.get("signature_expiration")
    expiration = None
    if expiration_text is not None:
        if not (expiration_text.isascii() and expiration_text.isdigit() and len(expiration_text) <= 15):
            raise HttpError(401, "the expiration of the signature is not valid")
        expiration = int(expiration_text)
    operation = OPERATION_BY_METHOD[request.method]
    expected = make_signature(
        query.get("path", ""), operation, query.get("username", ""), identity.access_token, expiration
    )
    if not hmac.compare_digest(signature.encode("utf-8", "replace"), expected.encode()):
        raise HttpError(401, "the signature is not valid")
    if expiration is not None and expiration <= time.time():
        raise HttpError(401, "the signature has expired")
