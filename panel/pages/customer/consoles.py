"""VNC screens and SSH shells of instances: the pages and their requests. The WebSockets are in consoles/routes.py."""

from flask import Blueprint, jsonify, url_for

from panel.auth import audit_context, get_source_address, permissions
from panel.auth.browser_session import (
    ensure_permission,
    get_current_access,
    get_current_account,
    has_permission,
    require_page_permission,
)
from panel.core.errors import NotFound, Unauthenticated
from panel.pages.shared import console_views
from panel.pages.shared.area import get_instance
from panel.pages.shared.instances.power_buttons import iter_power_buttons
from panel.services import consoles, instances
from panel.web.audit_view import audit_label
from panel.web.htmx import redirect_to, render
from panel.web.translation import gettext as _
from panel.web.translation import translate
from panel.workflows import vnc_console

bp = Blueprint("consoles", __name__)
CONSOLE_PERMISSION = "instances.console"
OPERATOR_CONSOLE_PERMISSION = "admin:instances:write"


@bp.post("/instances/<instance_id>/console")
@require_page_permission(CONSOLE_PERMISSION)
@audit_label("Request console")
def new_screen(instance_id):
    secret = vnc_console.open_vnc_session(get_instance(instance_id), audit_context.describe_session_owner())[1]
    return redirect_to(url_for(".screen", secret=secret))


@bp.get("/console/<secret>")
@require_page_permission(permissions.PUBLIC)
def screen(secret):
    """Show the VNC console. The secret in the URL is the only authorization and works once (CON-05, CON-10)."""
    row = consoles.find("screen", secret)
    if row is None or row.state != "fresh" or consoles.find_sessions_to_close([row.id], permissions.may_open_consoles):
        return render("console/closed.html", status=404, new_session_url=row and get_new_session_url(row))
    return screen_page(row, secret)


def screen_page(row, secret):
    instance, console_role = row.instance, find_console_role(row.instance)
    return render(
        "console/vnc.html",
        name=instance.display_name,
        password=row.password,
        socket=build_socket_url(secret),
        keymap=instance.vnc_keymap,
        new_session_url=url_for(".reopen", secret=secret),
        state=url_for(".state", secret=secret),
        back=get_back_url(instance, console_role),
        power=list(list_power_buttons(instance)) if console_role == "mine" else [],
    )


def build_socket_url(secret):
    return f"/vnc/?session={secret}"


def find_console_role(instance):
    """Return the role in which the viewer may open the instance: `mine`, `operator`, or None."""
    if get_current_account() is None:
        return None
    try:
        instances.get(instance.id, get_current_access())
        if has_permission(CONSOLE_PERMISSION):
            return "mine"
    except NotFound:
        pass
    return "operator" if get_current_account().is_admin and has_permission(OPERATOR_CONSOLE_PERMISSION) else None


def get_back_url(instance, role):
    ends = {"mine": "instances.show", "operator": "admin_instances.show"}
    return url_for(ends[role], instance_id=instance.id) if role else None


def get_new_session_url(row):
    """Return the URL that creates a new session of the same screen, or None without permission."""
    ends = {"mine": "consoles.new_screen", "operator": "admin_consoles.new_screen"}
    console_role = find_console_role(row.instance)
    return url_for(ends[console_role], instance_id=row.instance_id) if console_role else None


def list_power_buttons(instance):
    """Yield the power buttons as dicts, if the viewer has the permission."""
    if not has_permission("instances.power"):
        return
    for action, _disabled_reason, question in iter_power_buttons(instance):
        yield {
            "action": action.name,
            "label": action.label,
            "address": url_for("instances.power", instance_id=instance.id, action=action.name),
            "question": question,
            "danger": action.is_dangerous,
        }


@bp.post("/console/<secret>/again")
@require_page_permission(permissions.PUBLIC)
@audit_label("Request console")
def reopen(secret):
    """Create a new session in place of a redeemed one, for a signed-in person with permission."""
    row = consoles.find("screen", secret)
    if get_current_account() is None:
        raise Unauthenticated(_("Sign in to open the console again."))
    if row is None or (console_role := find_console_role(row.instance)) is None:
        raise NotFound(_("No such console."))
    ensure_permission(CONSOLE_PERMISSION if console_role == "mine" else OPERATOR_CONSOLE_PERMISSION)
    operator = console_role == "operator"
    new_row, new_secret = vnc_console.open_vnc_session(
        row.instance, audit_context.describe_session_owner(operator), by_operator=operator
    )
    return jsonify(
        page=url_for(".screen", secret=new_secret), socket=build_socket_url(new_secret), password=new_row.password
    )


@bp.get("/console/<secret>/state")
@require_page_permission(permissions.PUBLIC)
def state(secret):
    """Return the state of a session as JSON. Browsers do not report to pages why a WebSocket was refused or closed.

    `power` is null for who may no longer open the console.
    """
    row = consoles.find("screen", secret)
    if row is None:
        raise NotFound(_("No such console."))
    message = row.ended_message or row.error
    close_reason = consoles.find_sessions_to_close([row.id], permissions.may_open_consoles).get(row.id)
    if close_reason:
        message = row.ended_message or close_reason
    elif row.state == "fresh" and (refused := consoles.redeem_error(row, get_source_address())):
        message = refused.message
    power = None if close_reason else row.instance.power
    return jsonify(state=row.state, reason=row.ended_reason, message=translate(message), power=power)


# --- shells


@bp.get("/instances/<instance_id>/shell")
@require_page_permission(CONSOLE_PERMISSION)
def shell(instance_id):
    instance = get_instance(instance_id)
    return console_views.shell_page(instance, "consoles", url_for("instances.show", instance_id=instance.id))


@bp.post("/instances/<instance_id>/shell")
@require_page_permission(CONSOLE_PERMISSION)
@audit_label("Request shell")
def open_shell(instance_id):
    return console_views.open_shell(get_instance(instance_id), audit_context.describe_session_owner())


@bp.get("/instances/<instance_id>/shell/host-key")
@require_page_permission(CONSOLE_PERMISSION)
def host_key(instance_id):
    return jsonify(consoles.describe_host_keys(get_instance(instance_id)))


@bp.post("/instances/<instance_id>/shell/host-key")
@require_page_permission(CONSOLE_PERMISSION)
@audit_label("Accept host key")
def trust(instance_id):
    return console_views.accept_host_key(get_instance(instance_id))
