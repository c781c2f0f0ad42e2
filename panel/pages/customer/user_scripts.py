"""User scripts: what new machines run when they boot for the first time."""

from flask import Blueprint, url_for

from panel.auth.browser_session import page_can, viewer
from panel.schemas.user_scripts import UserScriptIn, UserScriptPatch
from panel.services import user_scripts
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("user_scripts", __name__, url_prefix="/user-scripts")


@bp.get("")
@page_can("user_scripts.view")
def index():
    return render("user/user_scripts/index.html", "rows", page=Page(user_scripts.listing(viewer())))


@bp.get("/new")
@page_can("user_scripts.manage")
def new():
    return render("user/user_scripts/new.html", form=Form(UserScriptIn, known={"type": "bash"}))


@bp.post("/new")
@page_can("user_scripts.manage")
def create():
    form = Form(UserScriptIn)
    if form.submit(lambda **data: user_scripts.create(viewer(), **data)):
        say(f"The script {form.result.name} is stored.")
        return go(url_for(".index"))
    return render("user/user_scripts/new.html", "form", status=form.status, form=form)


@bp.get("/<script_id>")
@page_can("user_scripts.view")
def edit(script_id):
    script = user_scripts.get(script_id, viewer())
    return render("user/user_scripts/edit.html", script=script, form=Form(UserScriptPatch, known=script))


@bp.post("/<script_id>")
@page_can("user_scripts.manage")
def update(script_id):
    script = user_scripts.get(script_id, viewer())
    form = Form(UserScriptPatch, known=script)
    if form.submit(lambda **data: user_scripts.update(script, **data)):
        say("The script is changed.")
        return go(url_for(".index"))
    return render("user/user_scripts/edit.html", "form", status=form.status, script=script, form=form)


@bp.post("/<script_id>/delete")
@page_can("user_scripts.delete")
def delete(script_id):
    script = user_scripts.get(script_id, viewer())
    user_scripts.delete(script)
    return did(f"The script {script.name} is removed.", url_for(".index"))
