"""Static files: our own from static/, third-party ones from static/vendor/ (installed by npm).

A URL contains a hash of the file's content, so browsers may cache it forever, and a changed file has a new URL.
"""

import json
import mimetypes
from functools import cache, lru_cache
from hashlib import sha256

import brotli
from flask import Blueprint, Response, abort, request, url_for

from panel.auth import permissions
from panel.auth.browser_session import require_page_permission
from panel.core.config import ROOT

STATIC_FOLDER = ROOT / "static"
PANEL_FILES = (
    "app.css",
    "app.js",
    "favicon.svg",
    "lists.js",
    "live.js",
    "notifications.js",
    "palette.js",
    "passkeys.js",
    "reference.css",
    "theme.js",
)
SERVED_PREFIXES = (*PANEL_FILES, "metrics.css", "metrics.js", "consoles/", "vendor/")

MODULE_SUFFIXES = (".js", ".mjs")
TEXT_SUFFIXES = (".css", ".js", ".mjs", ".svg")
"""Files of these are worth compressing."""

bp = Blueprint("assets", __name__)


def asset_url(name):
    """Return the URL of a file in static/."""
    return url_for("assets.serve", digest=compute_file_digest(name), name=name)


def compute_file_digest(name):
    """Return the hash for a file's URL. Vendor modules have the hash of npm's lock file, so that modules that import
    each other by relative paths come from the same version."""
    path = STATIC_FOLDER / (
        "package-lock.json" if name.startswith("vendor/") and name.endswith(MODULE_SUFFIXES) else name
    )
    try:
        changed_at = path.stat().st_mtime_ns
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing. Run `make browser-files`.") from None
    return hash_file(path, changed_at)


@cache
def icon_url(name):
    """Return the URL of one icon in the icon file, which does not change while the panel runs. Raise LookupError for an
    icon that is not installed."""
    if name not in list_installed_icons():
        raise LookupError(f"{name} is not in static/icons.json.")
    return f"{asset_url('vendor/icons.svg')}#{name}"


@cache
def list_installed_icons():
    return frozenset(json.loads((STATIC_FOLDER / "icons.json").read_text()))


@lru_cache(maxsize=64)
def hash_file(path, changed_at):
    return sha256(path.read_bytes()).hexdigest()[:12]


@bp.get("/static/<digest>/<path:name>")
@require_page_permission(permissions.PUBLIC)
def serve(digest, name):
    """Send the current file. With an outdated hash the answer may not be cached."""
    path = STATIC_FOLDER / name
    if ".." in name or not name.startswith(SERVED_PREFIXES) or not path.is_file():
        abort(404)
    is_current = digest == compute_file_digest(name)
    body = find_compressed(path) if "br" in request.accept_encodings else None
    answer = Response(body or path.read_bytes(), mimetype=mimetypes.guess_type(name)[0])
    answer.headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_current else "no-cache"
    answer.headers["Vary"] = "Accept-Encoding"
    if body:
        answer.headers["Content-Encoding"] = "br"
    return answer


def find_compressed(path):
    """Return the content as small as brotli makes it, or None for other files than text. That of third-party files was
    written when they were installed, because they are large."""
    compressed_path = path.with_name(f"{path.name}.br")
    if compressed_path.is_file():
        return compressed_path.read_bytes()
    return compress_file(path, path.stat().st_mtime_ns) if path.suffix in TEXT_SUFFIXES else None


@lru_cache(maxsize=64)
def compress_file(path, changed_at):
    return brotli.compress(path.read_bytes())
