"""Every open console of the platform, and operators' own."""

from flask import Blueprint, jsonify, request, url_for

from panel.auth import audit_context
from panel.auth.browser_session import page_can
from panel.pages.shared import console_views
from panel.services import consoles, instances
from panel.web.htmx import did, go, render
from panel.web.paging import Page
from panel.workflows import vnc_console

bp = Blueprint("admin_consoles", __name__, url_prefix="/admin")
READ, WRITE = "admin:instances:read", "admin:instances:write"
CLOSED = "An operator closed the console."


@bp.get("/consoles")
@page_can(READ)
def index():
    search = request.args.get("search", "")[:255]
    return render("admin/consoles/index.html", "rows", page=Page(consoles.listing(search)), filtered=bool(search))


@bp.post("/consoles/<console_id>/close")
@page_can(WRITE)
def close(console_id):
    consoles.close(consoles.get(console_id), CLOSED)
    return did("The console is being closed.", url_for(".index"), "info")


@bp.post("/instances/<instance_id>/console")
@page_can(WRITE)
def new_screen(instance_id):
    _, secret = vnc_console.opened(instances.get(instance_id), audit_context.holder(), by_operator=True)
    return go(url_for("consoles.screen", secret=secret))


@bp.get("/instances/<instance_id>/shell")
@page_can(WRITE)
def shell(instance_id):
    instance = instances.get(instance_id)
    return console_views.shell(instance, "admin_consoles", url_for("admin_instances.show", instance_id=instance.id))


@bp.post("/instances/<instance_id>/shell")
@page_can(WRITE)
def open_shell(instance_id):
    return console_views.opened(instances.get(instance_id), audit_context.holder())


@bp.get("/instances/<instance_id>/shell/host-key")
@page_can(WRITE)
def host_key(instance_id):
    return jsonify(consoles.host_keys(instances.get(instance_id)))


@bp.post("/instances/<instance_id>/shell/host-key")
@page_can(WRITE)
def trust(instance_id):
    return console_views.trusted(instances.get(instance_id))
