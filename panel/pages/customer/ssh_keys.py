"""SSH keys: the public halves that new machines let in."""

from flask import Blueprint, url_for

from panel.auth.browser_session import page_can, viewer
from panel.schemas.ssh_keys import SshKeyGenerate, SshKeyIn, SshKeyPatch
from panel.services import ssh_keys
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("ssh_keys", __name__, url_prefix="/ssh-keys")


@bp.get("")
@page_can("ssh_keys.view")
def index():
    return render("user/ssh_keys/index.html", "rows", page=Page(ssh_keys.listing(viewer())))


@bp.get("/new")
@page_can("ssh_keys.manage")
def new():
    return render("user/ssh_keys/new.html", form=Form(SshKeyIn))


@bp.post("/new")
@page_can("ssh_keys.manage")
def create():
    form = Form(SshKeyIn)
    if form.submit(lambda **data: ssh_keys.create(viewer(), **data)):
        say(f"The key {form.result.name} is stored.")
        return go(url_for(".index"))
    return render("user/ssh_keys/new.html", "form", status=form.status, form=form)


@bp.get("/generate")
@page_can("ssh_keys.manage")
def new_pair():
    return render("user/ssh_keys/generate.html", form=Form(SshKeyGenerate, known={"algorithm": "ed25519"}))


@bp.post("/generate")
@page_can("ssh_keys.manage")
def generate():
    """The private half is in this answer and nowhere else, so there is no redirect."""
    form = Form(SshKeyGenerate)
    if form.submit(lambda **data: ssh_keys.generate(viewer(), **data)):
        key, private = form.result
        return render("user/ssh_keys/generated.html", "once", key=key, private=private)
    return render("user/ssh_keys/generate.html", "form", status=form.status, form=form)


@bp.get("/<key_id>")
@page_can("ssh_keys.view")
def edit(key_id):
    key = ssh_keys.get(key_id, viewer())
    return render("user/ssh_keys/edit.html", key=key, form=Form(SshKeyPatch, known=key))


@bp.post("/<key_id>")
@page_can("ssh_keys.manage")
def update(key_id):
    key = ssh_keys.get(key_id, viewer())
    form = Form(SshKeyPatch, known=key)
    if form.submit(lambda **data: ssh_keys.update(key, **data)):
        say("The key is changed.")
        return go(url_for(".index"))
    return render("user/ssh_keys/edit.html", "form", status=form.status, key=key, form=form)


@bp.post("/<key_id>/delete")
@page_can("ssh_keys.delete")
def delete(key_id):
    key = ssh_keys.get(key_id, viewer())
    ssh_keys.delete(key)
    return did(f"The key {key.name} is removed.", url_for(".index"))
