"""The WebSockets: `/vnc/?session=…` and `/ssh/<token>` (specification 4.13). A connection that is no WebSocket spends
nothing; the first one that is gets the session."""

from flask import Blueprint, Response, current_app, request

from consoles import fd_passing
from panel.auth import permissions, source_address
from panel.auth.browser_session import require_page_permission
from panel.core.db import allow_writes, session
from panel.core.errors import Problem
from panel.services import consoles

bp = Blueprint("sockets", __name__)
PLAIN_HTTP = {
    "methods": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
    "provide_automatic_options": False,
}
"""What is no WebSocket gets the same refusal, whatever it asks."""


@bp.route("/vnc/", websocket=True)
@bp.route("/vnc/", endpoint="plain_vnc", **PLAIN_HTTP)
@require_page_permission(permissions.PUBLIC)
def vnc():
    return hand_to_console_server("screen", request.args.get("session", ""))


@bp.route("/ssh/<token>", websocket=True)
@bp.route("/ssh/<token>", endpoint="plain_ssh", **PLAIN_HTTP)
@require_page_permission(permissions.PUBLIC)
def ssh(token):
    return hand_to_console_server("shell", token)


@bp.route("/ssh", websocket=True)
@bp.route("/ssh", endpoint="plain_old_ssh", **PLAIN_HTTP)
@require_page_permission(permissions.PUBLIC)
def old_ssh():
    """The token stood in the query once, where proxies and histories keep it."""
    return Response("The token belongs into the path: /ssh/<token>.\n", 401, mimetype="text/plain")


def hand_to_console_server(kind, secret):
    """Gives the connection to the console process. The session is spent before that, so that of two connections at the
    same moment one gets it, and given back when nobody can carry it."""
    config = current_app.extensions["config"]
    fd_passing.ensure_websocket_handshake(request.environ)
    fd_passing.ensure_same_origin(request.environ, config.public_url)
    with allow_writes():
        session_id = consoles.redeem(kind, secret, source_address(), permissions.may_open_consoles)
        note = consoles.describe_session(consoles.get(session_id))
        session.commit()
        try:
            fd_passing.pass_socket(request.environ, config.console_socket, note)
        except Problem:
            consoles.release(session_id)
            session.commit()
            raise
    return fd_passing.SocketPassed()
