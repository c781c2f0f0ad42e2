"""For certificate authorities: the proof that a domain leads here (RFC 8555, section 8.3). The panel answers for any
host, to anybody, and knows only the tokens of orders that are under way."""

from flask import Blueprint, make_response

from panel.auth import permissions
from panel.auth.browser_session import require_page_permission
from panel.services import certificates

bp = Blueprint("acme", __name__)


@bp.get("/.well-known/acme-challenge/<token>")
@require_page_permission(permissions.PUBLIC)
def answer(token):
    found = certificates.find_challenge_answer(token)
    said = make_response(found or "No order is waiting for this token.\n", 200 if found else 404)
    said.mimetype = "text/plain"
    said.headers["Cache-Control"] = "no-store"
    return said
