"""VNC and SSH console sessions of an instance."""

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
SHELL_CLOSED_MESSAGE = "The shell was closed by a program."


def public_url():
    return current_app.extensions["config"].public_url.rstrip("/")


def socket_url(path):
    """Return the WebSocket URL of a path: ws for http, wss for https."""
    return f"ws{public_url().removeprefix('http')}{path}"


def ensure_public_address():
    """Raise Unavailable (`master_address_unknown`) when the panel's public address is a loopback or unspecified one.
    Private addresses are accepted (specification 7.2)."""
    host = urlsplit(public_url()).hostname or ""
    try:
        address = ipaddress.ip_address(host)
        address = getattr(address, "ipv4_mapped", None) or address
        unknown = address.is_loopback or address.is_unspecified
    except ValueError:
        unknown = host in ("", "localhost") or host.endswith(".localhost")
    if unknown:
        raise Unavailable(
            "The panel does not know at which address it can be reached. Its operator has to set PANEL_PUBLIC_URL.",
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
    """Mint a session of the screen.

    Open `console_url` in a browser, or `url` with a VNC viewer that speaks WebSockets. The first connection spends the
    session; opening the page does not. Refused (409) with `not_running`, `vnc_disabled` or `suspended`; 503
    `master_address_unknown` when the panel does not know its own address, 503 `cluster_console_unavailable` when the
    cluster of the instance's hypervisor issues no ticket for the screen.
    """
    return create_vnc_session(get_own_instance(instance_id), **body)


@user.get("/instance/<instance_id>/vnc", op="vnc", can=CONSOLE_PERMISSION, out=kit.build_wrapped_schema("data", VncOut))
def show_vnc(instance_id):
    """Show whether the screen can be opened.

    Nothing is minted: `GET /api/instance/{id}/novnc` and `POST /api/instance/{id}/console-session` answer with a
    session, its address and its password. `reason` is the word with which they would refuse now.
    """
    instance = get_own_instance(instance_id)
    reason = consoles.vnc_error(instance)
    values = {"enabled": instance.enable_vnc, "keymap": instance.vnc_keymap, "available": reason is None}
    return {"message": None, "data": {**values, "reason": reason}}


@user.get("/instance/<instance_id>/novnc", op="novnc", can=CONSOLE_PERMISSION, out=ScreenOut, **SESSION_CREATION)
@user.doc(**VNC_FAILURES)
def novnc(instance_id):
    """Mint a session of the screen that is good for a minute.

    Like the console session. It needs the permission to open consoles although it is a GET.
    """
    return create_vnc_session(get_own_instance(instance_id))


@user.post(
    "/instance/<instance_id>/ssh-session", op="ssh_session", can=CONSOLE_PERMISSION, out=ShellOut, **SESSION_CREATION
)
@user.doc(**SSH_FAILURES)
def create_ssh(instance_id):
    """Mint a session of a shell in the guest.

    A key that is made for it is put into the guest and taken out afterwards. Connect to `ws_url` within `expires_in`
    seconds; the first connection spends the token. Refused with `instance_not_running` (409), `unsupported_os` (422),
    without a reason (422) when the instance has no address, `ssh_key_injection_failed` (503) when the guest agent does
    not answer.
    """
    return create_ssh_session(get_own_instance(instance_id))


@user.get("/instance/<instance_id>/webssh", op="webssh", can=CONSOLE_PERMISSION, out=ShellOut, **SESSION_CREATION)
@user.doc(**SSH_FAILURES)
def webssh(instance_id):
    """Mint a session of a shell in the guest.

    The same as the SSH session, for clients that can only GET.
    """
    return create_ssh_session(get_own_instance(instance_id))


@user.get("/instance/<instance_id>/ssh-session", op="ssh_session_show", can=CONSOLE_PERMISSION, out=ShellSession)
def show_shell(instance_id):
    """Show the newest shell session that is open or can still be used. Its token is not shown again."""
    return describe_ssh_session(get_own_instance(instance_id))


@user.delete(
    "/instance/<instance_id>/ssh-session", op="ssh_session_close", can=CONSOLE_PERMISSION, out=kit.build_result_schema()
)
def close_shell(instance_id):
    """Close every shell session of the instance. Open shells end within seconds."""
    return {"message": close_sessions(get_own_instance(instance_id, even_suspended=True))}


def close_sessions(instance):
    count = consoles.close_all(instance, "shell", SHELL_CLOSED_MESSAGE)
    return f"{count} sessions are closed." if count != 1 else "The session is closed."


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
    """Mint a session of the screen.

    `expires_in` seconds long, 60 by default. Refused (409) with `not_running` or `vnc_disabled`; 503
    `master_address_unknown` when the panel does not know its own address, 503 `cluster_console_unavailable` when the
    cluster of the instance's hypervisor issues no ticket for the screen.
    """
    return create_vnc_session(instances.get(instance_id), by_operator=True, **body)


@admin.get("/instance/<instance_id>/novnc", op="novnc", can=OPERATOR_PERMISSION, out=ScreenOut, **SESSION_CREATION)
@admin.doc(**VNC_FAILURES)
def admin_novnc(instance_id):
    """Mint a session of the screen that is good for a minute.

    The same as `POST …/console-session` with 60 seconds. It counts in the budget of consoles. Refused (409) with
    `not_running` or `vnc_disabled`; 503 `master_address_unknown` or `cluster_console_unavailable`.
    """
    return create_vnc_session(instances.get(instance_id), by_operator=True)


@admin.get("/instance/<instance_id>/ssh", op="ssh", can=OPERATOR_PERMISSION, out=ShellOut, **SESSION_CREATION)
@admin.doc(**SSH_FAILURES)
def admin_ssh(instance_id):
    """Mint a session of a shell in the guest.

    Refusals are those of the user API. Needs nothing but a running Linux guest with an SSH server. Refused (409) with
    `suspended`, `no_hypervisor` or `instance_not_running`, (422) with `unsupported_os`.
    """
    return create_ssh_session(instances.get(instance_id))


@admin.get(
    "/instance/<instance_id>/ssh-session/status", op="ssh_session_status", can="admin:instances:read", out=ShellSession
)
def admin_show_shell(instance_id):
    """Show the newest shell session that is open or can still be used.

    `active` is false and `session` null when there is none. It says who opened it and until when it can be used.
    """
    return describe_ssh_session(instances.get(instance_id))


@admin.delete("/instance/<instance_id>/ssh-session", op="ssh_session_close", can=OPERATOR_PERMISSION)
def admin_close_shell(instance_id):
    """Close every shell session of the instance.

    Open shells are disconnected and unspent tokens do not open any. Does nothing when there is none.
    """
    kit.set_message(close_sessions(instances.get(instance_id)))
