"""The applications of the benchmarks: the panel, and a minimal handler with the same answers."""

import gzip
import os
import sqlite3
from hashlib import sha256
from json import loads
from pathlib import Path

from flask import Flask, Response, jsonify, request

from api import connect, kit
from panel.app import create_app
from panel.auth import permissions
from panel.core import config


def create_panel():
    return create_app(config.load())


def create_panel_with_public_view():
    """Create the panel with the view of `GET /api/connect` as an additional public route."""
    app = create_panel()
    user = kit.User("open", __name__)
    user.get("/profile/open", op="open", can=permissions.PUBLIC, out=kit.build_result_schema())(connect.connect)
    app.register_blueprint(user)
    return app


def create_panel_with_body():
    """Create the panel with `GET /api/metrics/body`, which checks the token as `GET /api/metrics` does and sends the
    bytes of the file PLAIN_BODY, plain or compressed."""
    app = create_panel()
    user = kit.User("body", __name__)
    plain = Path(os.environ["PLAIN_BODY"]).read_bytes()
    compressed = gzip.compress(plain, 1)

    @user.get("/metrics/body", op="body", can="metrics.view", budget="metrics", out=kit.METRICS_RESPONSE)
    def send_body():
        is_compressed = "gzip" in request.accept_encodings
        response = Response(compressed if is_compressed else plain, content_type="text/plain")
        response.set_etag("body")
        if is_compressed:
            response.content_encoding = "gzip"
        return response

    app.register_blueprint(user)
    return app


def create_bare():
    """Create a handler that uses SQLite directly: a token check, a count, a hundred rows."""
    app = Flask("bare")
    database = sqlite3.connect(os.environ["BARE_DATABASE"], check_same_thread=False)
    database.row_factory = sqlite3.Row
    nested = ("location", "primary_public_ip", "primary_public_ipv6")

    @app.get("/api/instances")
    def list_instances():
        value = request.headers["Authorization"].removeprefix("Bearer ")
        if not database.execute("select 1 from token where hash = ?", [sha256(value.encode()).hexdigest()]).fetchone():
            return jsonify(message="no"), 401
        total = database.execute("select count(*) from row").fetchone()[0]
        rows = [dict(row) for row in database.execute("select * from row order by number limit 100")]
        for row in rows:
            row.update({field: loads(row[field]) for field in nested if row[field]})
        return jsonify(data=rows, total=total)

    return app
