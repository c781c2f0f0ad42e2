"""Files that browsers load: ours from static/, others' from static/vendor/ (installed by npm).

An address holds the hash of the file's content, so it may be kept for ever and a changed file has another address.
"""

import json
import mimetypes
from functools import cache, lru_cache
from hashlib import sha256

from flask import Blueprint, Response, abort, request, url_for

from panel.auth import permissions
from panel.auth.browser_session import page_can
from panel.core.config import ROOT

FOLDER = ROOT / "static"
OWN = ("app.css", "app.js", "passkeys.js", "theme.js", "reference.css", "reference.js", "favicon.svg")
SERVED = (*OWN, "metrics.css", "metrics.js", "consoles/", "vendor/")

MODULES = (".js", ".mjs")

bp = Blueprint("assets", __name__)


def asset(name):
    """The address of a file below static/."""
    return url_for("assets.serve", digest=digest_of(name), name=name)


def digest_of(name):
    """What npm installed is named after its lock file: modules that load each other stay together that way."""
    path = FOLDER / ("package-lock.json" if name.startswith("vendor/") and name.endswith(MODULES) else name)
    return hashed(path, path.stat().st_mtime_ns)


@cache
def icon_address(name):
    """The address of one drawing of the icon file, which does not change while the panel runs. A name that was not
    installed is a typing mistake."""
    if name not in icons():
        raise LookupError(f"{name} is not in static/icons.json.")
    return f"{asset('vendor/icons.svg')}#{name}"


@cache
def icons():
    return frozenset(json.loads((FOLDER / "icons.json").read_text()))


@lru_cache(maxsize=64)
def hashed(path, changed_at):
    return sha256(path.read_bytes()).hexdigest()[:12]


@bp.get("/static/<digest>/<path:name>")
@page_can(permissions.PUBLIC)
def serve(digest, name):
    """The file as it is now: an old hash is answered with the current content, and not kept."""
    path = FOLDER / name
    if ".." in name or not name.startswith(SERVED) or not path.is_file():
        abort(404)
    kept = digest == digest_of(name)
    packed = path.with_name(f"{path.name}.br")
    squeezed = packed.is_file() and "br" in request.accept_encodings
    answer = Response((packed if squeezed else path).read_bytes(), mimetype=mimetypes.guess_type(name)[0])
    answer.headers["Cache-Control"] = "public, max-age=31536000, immutable" if kept else "no-cache"
    answer.headers["Vary"] = "Accept-Encoding"
    if squeezed:
        answer.headers["Content-Encoding"] = "br"
    return answer
