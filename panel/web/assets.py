"""Files that browsers load: ours from static/, others' from static/vendor/ (installed by npm).

An address holds the hash of the file's content, so it may be kept for ever and a changed file has another address.
"""

import json
import mimetypes
from functools import cache, lru_cache
from hashlib import sha256

from flask import Blueprint, Response, abort, request, url_for

from panel.auth import permissions
from panel.auth.browser_session import require_page_permission
from panel.core.config import ROOT

STATIC_FOLDER = ROOT / "static"
OWN_FILES = ("app.css", "app.js", "passkeys.js", "theme.js", "reference.css", "reference.js", "favicon.svg")
SERVED_PREFIXES = (*OWN_FILES, "metrics.css", "metrics.js", "consoles/", "vendor/")

MODULE_SUFFIXES = (".js", ".mjs")

bp = Blueprint("assets", __name__)


def asset_url(name):
    """The address of a file below static/."""
    return url_for("assets.serve", digest=file_digest(name), name=name)


def file_digest(name):
    """What npm installed is named after its lock file: modules that load each other stay together that way."""
    path = STATIC_FOLDER / (
        "package-lock.json" if name.startswith("vendor/") and name.endswith(MODULE_SUFFIXES) else name
    )
    return hash_file(path, path.stat().st_mtime_ns)


@cache
def icon_url(name):
    """The address of one drawing of the icon file, which does not change while the panel runs. A name that was not
    installed is a typing mistake."""
    if name not in installed_icons():
        raise LookupError(f"{name} is not in static/icons.json.")
    return f"{asset_url('vendor/icons.svg')}#{name}"


@cache
def installed_icons():
    return frozenset(json.loads((STATIC_FOLDER / "icons.json").read_text()))


@lru_cache(maxsize=64)
def hash_file(path, changed_at):
    return sha256(path.read_bytes()).hexdigest()[:12]


@bp.get("/static/<digest>/<path:name>")
@require_page_permission(permissions.PUBLIC)
def serve(digest, name):
    """The file as it is now: an old hash is answered with the current content, and not kept."""
    path = STATIC_FOLDER / name
    if ".." in name or not name.startswith(SERVED_PREFIXES) or not path.is_file():
        abort(404)
    kept = digest == file_digest(name)
    packed = path.with_name(f"{path.name}.br")
    squeezed = packed.is_file() and "br" in request.accept_encodings
    answer = Response((packed if squeezed else path).read_bytes(), mimetype=mimetypes.guess_type(name)[0])
    answer.headers["Cache-Control"] = "public, max-age=31536000, immutable" if kept else "no-cache"
    answer.headers["Vary"] = "Accept-Encoding"
    if squeezed:
        answer.headers["Content-Encoding"] = "br"
    return answer
