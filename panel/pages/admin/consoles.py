"""Open consoles of the platform, and consoles that operators open."""

from flask import Blueprint, jsonify, request, url_for

from panel.auth import audit_context
from panel.auth.browser_session import require_page_permission
from panel.pages.admin import labels
from panel.pages.shared import console_views
from panel.services import consoles, instances
from panel.web.audit_view import audit_label
from panel.web.htmx import build_action_response, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.workflows import vnc_console

bp = Blueprint("admin_consoles", __name__, url_prefix="/admin")
NAVIGATION = NavigationEntry(
    "resources", "Consoles", "admin_consoles.index", icon="terminal-2", permission="admin:instances:read", position=70
)
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
CLOSED_MESSAGE = "An operator closed the console."


@bp.get("/consoles")
@require_page_permission(READ_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    return render(
        "admin/consoles/index.html",
        "rows",
        page=Page(consoles.listing(search)),
        filtered=bool(search),
        person_kinds=labels.PERSON_KINDS,
    )


@bp.post("/consoles/<console_id>/close")
@require_page_permission(WRITE_PERMISSION)
def close(console_id):
    consoles.close(consoles.get(console_id), CLOSED_MESSAGE)
    return build_action_response(_("Closing the console."), url_for(".index"), "info")


@bp.post("/instances/<instance_id>/console")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Request console")
def new_screen(instance_id):
    _session, secret = vnc_console.open_vnc_session(
        instances.get(instance_id), audit_context.describe_session_owner(), by_operator=True
    )
    return redirect_to(url_for("consoles.screen", secret=secret))


@bp.get("/instances/<instance_id>/shell")
@require_page_permission(WRITE_PERMISSION)
def shell(instance_id):
    instance = instances.get(instance_id)
    return console_views.shell_page(
        instance, "admin_consoles", url_for("admin_instances.show", instance_id=instance.id)
    )


@bp.post("/instances/<instance_id>/shell")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Request shell")
def open_shell(instance_id):
    return console_views.open_shell(instances.get(instance_id), audit_context.describe_session_owner())


@bp.get("/instances/<instance_id>/shell/host-key")
@require_page_permission(WRITE_PERMISSION)
def host_key(instance_id):
    return jsonify(consoles.describe_host_keys(instances.get(instance_id)))


@bp.post("/instances/<instance_id>/shell/host-key")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Accept host key")
def trust(instance_id):
    return console_views.accept_host_key(instances.get(instance_id))
