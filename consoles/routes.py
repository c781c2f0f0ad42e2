"""The connections that the console server serves.

WebSockets: `/vnc/?session=…` and `/ssh/<token>` (CON-02, SSH-05). A request that opens no WebSocket does not use the
session up; the first one that does redeems it. `/live`: events for open pages.
"""

from flask import Blueprint, Response, current_app, request
from flask_login import current_user

from consoles import fd_passing
from panel.auth import get_source_address, permissions
from panel.auth.browser_session import get_current_account, is_second_factor_missing, require_page_permission
from panel.core.errors import TooMany, Unavailable
from panel.workflows import console_redemption

bp = Blueprint("sockets", __name__)
PLAIN_HTTP = {
    "methods": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
    "provide_automatic_options": False,
}
"""Every request that is no WebSocket gets the same error, whatever its method."""
SINCE_MAX_DIGITS = 15


@bp.route("/vnc/", websocket=True)
@bp.route("/vnc/", endpoint="plain_vnc", **PLAIN_HTTP)
@require_page_permission(permissions.PUBLIC)
def vnc():
    return pass_to_console_server("screen", request.args.get("session", ""))


@bp.route("/ssh/<token>", websocket=True)
@bp.route("/ssh/<token>", endpoint="plain_ssh", **PLAIN_HTTP)
@require_page_permission(permissions.PUBLIC)
def ssh(token):
    return pass_to_console_server("shell", token)


@bp.route("/ssh", websocket=True)
@bp.route("/ssh", endpoint="plain_old_ssh", **PLAIN_HTTP)
@require_page_permission(permissions.PUBLIC)
def old_ssh():
    """Refuse the former address: a token in the query ends up in the logs of proxies and in browser histories."""
    return Response("The token belongs into the path: /ssh/<token>.\n", 401, mimetype="text/plain")


@bp.get("/live")
@require_page_permission(permissions.PUBLIC)
def live():
    """Open a stream of server-sent events with the changes that the viewer's pages show. 204, which browsers do not
    report as an error, when nobody is signed in or no stream can open at the moment."""
    if get_current_account() is None or is_second_factor_missing():
        return Response(status=204)
    since = request.args.get("since", "")
    command = {"command": "open_events", "session": current_user.sign_in.id, "since": 0}
    if since.isdecimal() and len(since) <= SINCE_MAX_DIGITS:
        command["since"] = int(since)
    try:
        fd_passing.pass_connection(request.environ, current_app.extensions["config"].console_socket, command)
    except (TooMany, Unavailable):
        return Response(status=204)
    return fd_passing.SocketPassed()


def pass_to_console_server(kind, secret):
    """Pass the connection to the console server. The session is redeemed before that, so of two connections at the same
    moment only one gets it; it is released when no console server takes the connection."""
    config = current_app.extensions["config"]
    fd_passing.ensure_websocket_handshake(request.environ)
    fd_passing.ensure_same_origin(request.environ, config.public_url)
    with console_redemption.redeemed_session(kind, secret, get_source_address(), permissions.may_open_consoles) as note:
        fd_passing.pass_socket(request.environ, config.console_socket, note)
    return fd_passing.SocketPassed()
