"""The two OpenAPI documents, for anybody (specification 1)."""

import yaml
from flask import Blueprint, Response, current_app

import panel

bp = Blueprint("docs", __name__, url_prefix="/api/docs")


@bp.get("/openapi.yaml")
def admin():
    return document("ADMIN")


@bp.get("/user/openapi.yaml")
def user():
    return document("USER")


def document(surface):
    """The document as this installation serves it: its own version and its own public address."""
    text = yaml.safe_dump(described(current_app, surface), sort_keys=False, allow_unicode=True)
    return Response(text, mimetype="application/yaml")


def described(app, surface):
    spec = app.extensions["openapi"][surface].spec.to_dict()
    spec["info"]["version"] = panel.__version__
    spec["servers"] = [{"url": app.extensions["config"].public_url}]
    return spec
