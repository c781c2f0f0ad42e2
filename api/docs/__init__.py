"""The public API references and their OpenAPI documents (DOC-01 to DOC-11)."""

from functools import lru_cache

import yaml
from flask import Blueprint, Response, current_app, url_for

import panel
from api.docs.document import build_openapi_document
from panel.web.api_reference import render_reference

__all__ = ["bp", "build_openapi_document"]

bp = Blueprint("docs", __name__)


@bp.get("/api/docs")
@bp.get("/api/docs/admin/<family>")
def admin(family=None):
    return render_public_reference("admin", family)


@bp.get("/api/user")
@bp.get("/api/docs/user")
@bp.get("/api/docs/user/<family>")
def user(family=None):
    return render_public_reference("user", family)


def render_public_reference(surface, family):
    def get_url(name=None):
        return url_for(f".{surface}", family=name)

    return render_reference("docs/show.html", surface, family, get_url)


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
