"""VNC console and SSH sessions of an instance."""

import ipaddress
from urllib.parse import urlsplit

from flask import current_app

from api import kit
from api.instances import admin, user
from api.instances.customer import get_own_instance
from panel.auth import audit_context
from panel.core.errors import Unavailable
from panel.schemas.consoles import ScreenIn, ScreenOut, ShellOut, ShellSession, VncOut
from panel.services import consoles, instances
from panel.workflows import ssh_console, vnc_console

CONSOLE_PERMISSION = "instances.console"
OPERATOR_PERMISSION = "admin:instances:write"
SESSION_CREATION = {"budget": "consoles", "writes": True}
VNC_FAILURES = {"responses": {409: "Conflict", 503: "Unavailable"}}
SSH_FAILURES = {"responses": {409: "Conflict", 422: "Invalid", 503: "Unavailable"}}
SHELL_CLOSED_MESSAGE = "The shell was closed through the API."


def public_url():
    return current_app.extensions["config"].public_url.rstrip("/")


def socket_url(path):
    """Return the WebSocket URL of a path: ws for http, wss for https."""
    return f"ws{public_url().removeprefix('http')}{path}"


def ensure_public_address():
    """Raise Unavailable (`master_address_unknown`) when the panel's public address is a loopback or unspecified one.
    Private addresses are accepted (CON-21)."""
    host = urlsplit(public_url()).hostname or ""
    try:
        address = ipaddress.ip_address(host)
        address = getattr(address, "ipv4_mapped", None) or address
        unknown = address.is_loopback or address.is_unspecified
    except ValueError:
        unknown = host in ("", "localhost") or host.endswith(".localhost")
    if unknown:
        raise Unavailable(
            "The public address of the panel is not configured. The operator has to set PANEL_PUBLIC_URL.",
            reason="master_address_unknown",
        )


def create_vnc_session(instance, expires_in=consoles.VNC_SESSION_TTL_SECONDS, by_operator=False):
    ensure_public_address()
    row, secret = vnc_console.open_vnc_session(
        instance, audit_context.describe_session_owner(), by_operator=by_operator, expires_in=expires_in
    )
    return {
        "url": socket_url(f"/vnc/?session={secret}"),
        "console_url": f"{public_url()}/console/{secret}",
        "password": row.password,
        "expires_at": row.expires_at,
    }


def create_ssh_session(instance):
    row, token, task = ssh_console.open_ssh_session(instance, audit_context.describe_session_owner())
    return {
        "token": token,
        "session_id": row.id,
        "task_id": task.id,
        "ws_url": socket_url(f"/ssh/{token}"),
        "expires_in": consoles.SHELL_SESSION_TTL_SECONDS,
    }


def describe_ssh_session(instance):
    row = consoles.find_current(instance, "shell")
    if row is None:
        return {"active": False, "session": None}
    values = {"session_id": row.id, "by": row.opened_by["person"]}
    values |= {name: getattr(row, name) for name in ("state", "opened_at", "expires_at")}
    return {"active": True, "session": values}


@user.post(
    "/instance/<instance_id>/console-session",
    op="console_session",
    can=CONSOLE_PERMISSION,
    body=ScreenIn,
    out=ScreenOut,
    **SESSION_CREATION,
)
@user.doc(**VNC_FAILURES)
def create_vnc(body, instance_id):
    """Create a VNC console session.

    Open `console_url` in a browser, or `url` with a VNC client that supports WebSockets. The session can be used for
    one connection; opening the page does not use it up. Returns 409 `not_running`, `vnc_disabled` or `suspended`; 503
    `master_address_unknown` if the public address of the panel is not configured, and 503 `cluster_console_unavailable`
    if the hypervisor's cluster issues no console ticket.
    """
    return create_vnc_session(get_own_instance(instance_id), **body)


@user.get("/instance/<instance_id>/vnc", op="vnc", can=CONSOLE_PERMISSION, out=kit.build_wrapped_schema("data", VncOut))
def show_vnc(instance_id):
    """Get the VNC state of an instance.

    No session is created: use `POST /api/instance/{id}/console-session` or `GET /api/instance/{id}/novnc` for that.
    `reason` is the code with which they would refuse at the moment.
    """
    instance = get_own_instance(instance_id)
    reason = consoles.vnc_error(instance)
    values = {"enabled": instance.enable_vnc, "keymap": instance.vnc_keymap, "available": reason is None}
    return {"message": None, "data": {**values, "reason": reason}}


@user.get("/instance/<instance_id>/novnc", op="novnc", can=CONSOLE_PERMISSION, out=ScreenOut, **SESSION_CREATION)
@user.doc(**VNC_FAILURES)
def novnc(instance_id):
    """Create a VNC console session that expires after 60 seconds.

    The same as `POST /api/instance/{id}/console-session`. It requires the permission to open consoles although it is a
    GET.
    """
    return create_vnc_session(get_own_instance(instance_id))


@user.post(
    "/instance/<instance_id>/ssh-session", op="ssh_session", can=CONSOLE_PERMISSION, out=ShellOut, **SESSION_CREATION
)
@user.doc(**SSH_FAILURES)
def create_ssh(instance_id):
    """Create an SSH session in the guest.

    A temporary SSH key is installed in the guest and removed afterwards. Connect to `ws_url` within `expires_in`
    seconds; the token can be used for one connection. Returns 409 `instance_not_running`, 422 `unsupported_os`, 422
    without a reason if the instance has no address, and 503 `ssh_key_injection_failed` if the guest agent does not
    respond.
    """
    return create_ssh_session(get_own_instance(instance_id))


@user.get("/instance/<instance_id>/webssh", op="webssh", can=CONSOLE_PERMISSION, out=ShellOut, **SESSION_CREATION)
@user.doc(**SSH_FAILURES)
def webssh(instance_id):
    """Create an SSH session in the guest.

    The same as `POST /api/instance/{id}/ssh-session`, for clients that can only send GET requests.
    """
    return create_ssh_session(get_own_instance(instance_id))


@user.get("/instance/<instance_id>/ssh-session", op="ssh_session_show", can=CONSOLE_PERMISSION, out=ShellSession)
def show_shell(instance_id):
    """Get the newest SSH session that is open or unused. Its token is not returned."""
    return describe_ssh_session(get_own_instance(instance_id))


@user.delete(
    "/instance/<instance_id>/ssh-session", op="ssh_session_close", can=CONSOLE_PERMISSION, out=kit.build_result_schema()
)
def close_shell(instance_id):
    """Close all SSH sessions of an instance. Open shells end within seconds."""
    return {"message": close_sessions(get_own_instance(instance_id, even_suspended=True))}


def close_sessions(instance):
    count = consoles.close_all(instance, "shell", SHELL_CLOSED_MESSAGE)
    return f"{count} sessions closed." if count != 1 else "Session closed."


@admin.post(
    "/instance/<instance_id>/console-session",
    op="console_session",
    can=OPERATOR_PERMISSION,
    body=ScreenIn,
    out=ScreenOut,
    **SESSION_CREATION,
)
@admin.doc(**VNC_FAILURES)
def admin_create_vnc(body, instance_id):
    """Create a VNC console session.

    It expires after `expires_in` seconds (60 by default). Returns 409 `not_running` or `vnc_disabled`; 503
    `master_address_unknown` if the public address of the panel is not configured, and 503 `cluster_console_unavailable`
    if the hypervisor's cluster issues no console ticket.
    """
    return create_vnc_session(instances.get(instance_id), by_operator=True, **body)


@admin.get("/instance/<instance_id>/novnc", op="novnc", can=OPERATOR_PERMISSION, out=ScreenOut, **SESSION_CREATION)
@admin.doc(**VNC_FAILURES)
def admin_novnc(instance_id):
    """Create a VNC console session that expires after 60 seconds.

    The same as `POST …/console-session` with 60 seconds. Counts against the rate limit for consoles. Returns 409
    `not_running` or `vnc_disabled`, and 503 `master_address_unknown` or `cluster_console_unavailable`.
    """
    return create_vnc_session(instances.get(instance_id), by_operator=True)


@admin.get("/instance/<instance_id>/ssh", op="ssh", can=OPERATOR_PERMISSION, out=ShellOut, **SESSION_CREATION)
@admin.doc(**SSH_FAILURES)
def admin_ssh(instance_id):
    """Create an SSH session in the guest.

    Requires a running Linux guest with an SSH server. Returns the same errors as the user API: 409 `suspended`,
    `no_hypervisor` or `instance_not_running`, and 422 `unsupported_os`.
    """
    return create_ssh_session(instances.get(instance_id))


@admin.get(
    "/instance/<instance_id>/ssh-session/status", op="ssh_session_status", can="admin:instances:read", out=ShellSession
)
def admin_show_shell(instance_id):
    """Get the newest SSH session that is open or unused.

    Contains its creator and expiry. `active` is false and `session` is null if there is none.
    """
    return describe_ssh_session(instances.get(instance_id))


@admin.delete("/instance/<instance_id>/ssh-session", op="ssh_session_close", can=OPERATOR_PERMISSION)
def admin_close_shell(instance_id):
    """Close all SSH sessions of an instance.

    Open shells are disconnected and unused tokens become invalid. Does nothing if there is none.
    """
    kit.set_message(close_sessions(instances.get(instance_id)))
