"""User scripts, which run at the first boot of new machines."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.models import UserScript
from panel.schemas.user_scripts import UserScriptIn, UserScriptPatch
from panel.services import user_scripts
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("user_scripts", __name__, url_prefix="/user-scripts")
NAVIGATION = NavigationEntry(
    "account", "User scripts", "user_scripts.index", icon="file-text", permission="user_scripts.view", position=30
)
PALETTE_ACTIONS = (
    PaletteAction(
        "Add user script", "user_scripts.new", icon="file-text", permission="user_scripts.manage", position=50
    ),
)
SEARCH_RESULTS = (
    SearchResults(
        "user_script", "User scripts", icon="file-text", url=lambda row: url_for("user_scripts.edit", script_id=row.id)
    ),
)
ORDERS = {"name": UserScript.name}


@bp.get("")
@require_page_permission("user_scripts.view")
def index():
    return render(
        "customer/user_scripts/index.html", "rows", page=Page(user_scripts.listing(get_current_access()), orders=ORDERS)
    )


@bp.get("/new")
@require_page_permission("user_scripts.manage")
def new():
    return render("customer/user_scripts/new.html", form=Form(UserScriptIn, initial={"type": "bash"}))


@bp.post("/new")
@require_page_permission("user_scripts.manage")
def create():
    form = Form(UserScriptIn)
    if form.submit(lambda **data: user_scripts.create(get_current_access(), **data)):
        flash_message(_("Script %(name)s added.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return render("customer/user_scripts/new.html", "form", status=form.status, form=form)


@bp.get("/<script_id>")
@require_page_permission("user_scripts.view")
def edit(script_id):
    script = user_scripts.get(script_id, get_current_access())
    return render("customer/user_scripts/edit.html", script=script, form=Form(UserScriptPatch, initial=script))


@bp.post("/<script_id>")
@require_page_permission("user_scripts.manage")
def update(script_id):
    script = user_scripts.get(script_id, get_current_access())
    form = Form(UserScriptPatch, initial=script)
    if form.submit(lambda **data: user_scripts.update(script, **data)):
        flash_message(_("Script saved."))
        return redirect_to(url_for(".index"))
    return render("customer/user_scripts/edit.html", "form", status=form.status, script=script, form=form)


@bp.post("/<script_id>/delete")
@require_page_permission("user_scripts.delete")
def delete(script_id):
    script = user_scripts.get(script_id, get_current_access())
    user_scripts.delete(script)
    return build_action_response(_("Script %(name)s deleted.", name=script.name), url_for(".index"))
