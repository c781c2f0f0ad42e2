"""Screens and shells of instances: the pages, and what they ask for. The WebSockets are in consoles/routes.py."""

from flask import Blueprint, jsonify, url_for

from panel.auth import audit_context, permissions, source_address
from panel.auth.browser_session import may, me, page_can, require, viewer
from panel.core.errors import NotFound, Unauthenticated
from panel.pages.shared import console_views
from panel.pages.shared.area import found
from panel.pages.shared.instances.power_buttons import controls
from panel.services import consoles, instances
from panel.web.htmx import go, render
from panel.workflows import vnc_console

bp = Blueprint("consoles", __name__)
CONSOLE = "instances.console"
OPERATE = "admin:instances:write"


@bp.post("/instances/<instance_id>/console")
@page_can(CONSOLE)
def new_screen(instance_id):
    _, secret = vnc_console.opened(found(instance_id), audit_context.holder())
    return go(url_for(".screen", secret=secret))


@bp.get("/console/<secret>")
@page_can(permissions.PUBLIC)
def screen(secret):
    """The page stands alone: whoever has its address may open the screen, once (specification 4.13)."""
    row = consoles.find("screen", secret)
    if row is None or row.state != "fresh" or consoles.unwelcome([row.id], permissions.may_open_consoles):
        return render("console/closed.html", status=404, anew=row and anew(row))
    return screen_page(row, secret)


def screen_page(row, secret):
    instance, reached = row.instance, reaches(row.instance)
    return render(
        "console/vnc.html",
        name=instance.display_name,
        password=row.password,
        socket=socket_of(secret),
        keymap=instance.vnc_keymap,
        again=url_for(".again", secret=secret),
        state=url_for(".state", secret=secret),
        back=back(instance, reached),
        power=list(power(instance)) if reached == "mine" else [],
    )


def socket_of(secret):
    return f"/vnc/?session={secret}"


def reaches(instance):
    """In what role the person who looks may open the instance: `mine`, `operator`, or None."""
    if me() is None:
        return None
    try:
        instances.get(instance.id, viewer())
        if may(CONSOLE):
            return "mine"
    except NotFound:
        pass
    return "operator" if me().is_admin and may(OPERATE) else None


def back(instance, reached):
    ends = {"mine": "instances.show", "operator": "admin_instances.show"}
    return url_for(ends[reached], instance_id=instance.id) if reached else None


def anew(row):
    """Where a person who may do that asks for a new session of the same screen."""
    ends = {"mine": "consoles.new_screen", "operator": "admin_consoles.new_screen"}
    reached = reaches(row.instance)
    return url_for(ends[reached], instance_id=row.instance_id) if reached else None


def power(instance):
    """The power buttons, for who may press them."""
    for control, _, question in controls(instance):
        if may("instances.power"):
            address = url_for("instances.power", instance_id=instance.id, action=control.action)
            yield {
                "action": control.action,
                "label": control.label,
                "address": address,
                "question": question,
                "danger": control.danger,
            }


@bp.post("/console/<secret>/again")
@page_can(permissions.PUBLIC)
def again(secret):
    """A new session in the place of one that was spent, for a signed-in person who may have it."""
    row = consoles.find("screen", secret)
    if me() is None:
        raise Unauthenticated("Sign in to open the console again.")
    if row is None or (reached := reaches(row.instance)) is None:
        raise NotFound("There is no such console.")
    require(CONSOLE if reached == "mine" else OPERATE)
    operator = reached == "operator"
    made, new = vnc_console.opened(row.instance, audit_context.holder(operator), by_operator=operator)
    return jsonify(page=url_for(".screen", secret=new), socket=socket_of(new), password=made.password)


@bp.get("/console/<secret>/state")
@page_can(permissions.PUBLIC)
def state(secret):
    """What became of a session: browsers do not tell pages why a WebSocket was refused or closed."""
    row = consoles.find("screen", secret)
    if row is None:
        raise NotFound("There is no such console.")
    message = row.ended_message or row.problem
    if row.state == "fresh" and (refused := consoles.refusal(row, source_address())):
        message = refused.message
    return jsonify(state=row.state, reason=row.ended_reason, message=message, power=row.instance.power)


# --- shells


@bp.get("/instances/<instance_id>/shell")
@page_can(CONSOLE)
def shell(instance_id):
    instance = found(instance_id)
    return console_views.shell(instance, "consoles", url_for("instances.show", instance_id=instance.id))


@bp.post("/instances/<instance_id>/shell")
@page_can(CONSOLE)
def open_shell(instance_id):
    return console_views.opened(found(instance_id), audit_context.holder())


@bp.get("/instances/<instance_id>/shell/host-key")
@page_can(CONSOLE)
def host_key(instance_id):
    return jsonify(consoles.host_keys(found(instance_id)))


@bp.post("/instances/<instance_id>/shell/host-key")
@page_can(CONSOLE)
def trust(instance_id):
    return console_views.trusted(found(instance_id))
