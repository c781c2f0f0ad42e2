"""The public API references: two pages and their OpenAPI documents (DOC-01 to DOC-11)."""

from functools import lru_cache

import yaml
from flask import Blueprint, Response, current_app, render_template

import panel
from api.docs.document import build_openapi_document

__all__ = ["bp", "build_openapi_document"]

bp = Blueprint("docs", __name__)


@bp.get("/api/docs")
def admin():
    return render_template("docs/show.html", title="Admin API", document="docs.admin_document")


@bp.get("/api/user")
@bp.get("/api/docs/user")
def user():
    return render_template("docs/show.html", title="User API", document="docs.user_document")


@bp.get("/api/admin/openapi.yaml")
@bp.get("/api/docs/openapi.yaml")
def admin_document():
    return build_document_response("ADMIN")


@bp.get("/api/docs/user/openapi.yaml")
def user_document():
    return build_document_response("USER")


def build_document_response(surface):
    app = current_app._get_current_object()
    text = render_document(app, surface, panel.INTERFACE_VERSION, app.extensions["config"].public_url)
    return Response(text, mimetype="application/yaml")


@lru_cache(maxsize=8)
def render_document(app, surface, *facts):
    """Return the document as YAML. Cached by `facts`, because rendering is slow."""
    return yaml.dump(
        build_openapi_document(app, surface), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120
    )


class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # depends on libyaml
    """A YAML dumper without anchors and aliases."""

    def ignore_aliases(self, data):
        return True
