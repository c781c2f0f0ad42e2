"""The brand of a request: its identity in templates, and the files of its pages.

The URL of each file says what is in it, so browsers may cache them forever.
"""

from flask import Blueprint, Response, abort, g

from panel.auth import permissions
from panel.auth.browser_session import require_page_permission
from panel.core.accent_colors import COLOR_PATTERN, compute_accent_colors
from panel.core.brand_identity import LINK_KINDS
from panel.services import brand_images, brands
from panel.web.translation import lazy_gettext

bp = Blueprint("branding", __name__, url_prefix="/branding")
LINK_LABELS = {
    "support": lazy_gettext("Support"),
    "terms": lazy_gettext("Terms of service"),
    "privacy": lazy_gettext("Privacy policy"),
    "imprint": lazy_gettext("Imprint"),
}
CACHE_CONTROL = "public, max-age=31536000, immutable"


def get_request_brand():
    """Return the brand of the request's host; the last known one while the database is unavailable."""
    if "brand" not in g:
        g.brand = brands.get_last_known() if g.get("is_database_unavailable") else brands.get_current()
    return g.brand


def list_links():
    """Return (label, URL) of the links that the brand has."""
    brand = get_request_brand()
    links = ((LINK_LABELS[kind], getattr(brand, f"{kind}_url")) for kind in LINK_KINDS)
    return [(label, url) for label, url in links if url]


@bp.get("/images/<digest>")
@require_page_permission(permissions.PUBLIC)
def show_image(digest):
    """Send a logo or favicon. Opened as a page, it may do nothing."""
    image = brand_images.get(digest)
    answer = Response(image.content, mimetype=image.media_type)
    answer.headers["Cache-Control"] = CACHE_CONTROL
    answer.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    answer.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return answer


@bp.get("/accent/<color>.css")
@require_page_permission(permissions.PUBLIC)
def show_accent(color):
    """Send the style sheet of an accent color. It depends on the color only."""
    if not COLOR_PATTERN.fullmatch(f"#{color}"):
        abort(404)
    answer = Response(compute_accent_colors(f"#{color}").to_css(), mimetype="text/css")
    answer.headers["Cache-Control"] = CACHE_CONTROL
    return answer
