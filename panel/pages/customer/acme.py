"""The answer to ACME HTTP-01 challenges (RFC 8555, section 8.3).

Public and for any host name. Only the tokens of open orders are answered."""

from flask import Blueprint, make_response

from panel.auth import permissions
from panel.auth.browser_session import require_page_permission
from panel.services import certificates

bp = Blueprint("acme", __name__)


@bp.get("/.well-known/acme-challenge/<token>")
@require_page_permission(permissions.PUBLIC)
def answer(token):
    proof = certificates.find_challenge_answer(token)
    response = make_response(proof or "No order is waiting for this token.\n", 200 if proof else 404)
    response.mimetype = "text/plain"
    response.headers["Cache-Control"] = "no-store"
    return response
