"""SSH keys: public keys that are installed on new machines."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.models import SshKey
from panel.schemas.ssh_keys import SshKeyGenerate, SshKeyIn, SshKeyPatch
from panel.services import ssh_keys
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("ssh_keys", __name__, url_prefix="/ssh-keys")
NAVIGATION = NavigationEntry(
    "account", "SSH keys", "ssh_keys.index", icon="key", permission="ssh_keys.view", position=20
)
PALETTE_ACTIONS = (
    PaletteAction("Add SSH key", "ssh_keys.new", icon="key", permission="ssh_keys.manage", position=30),
    PaletteAction(
        "Generate SSH key", "ssh_keys.show_generate_form", icon="wand", permission="ssh_keys.manage", position=40
    ),
)
SEARCH_RESULTS = (SearchResults("ssh_key", "SSH keys", icon="key", url=lambda row: url_for("ssh_keys.index")),)
ORDERS = {"name": SshKey.name}


@bp.get("")
@require_page_permission("ssh_keys.view")
def index():
    return render(
        "customer/ssh_keys/index.html", "rows", page=Page(ssh_keys.listing(get_current_access()), orders=ORDERS)
    )


@bp.get("/new")
@require_page_permission("ssh_keys.manage")
def new():
    return render("customer/ssh_keys/new.html", form=Form(SshKeyIn))


@bp.post("/new")
@require_page_permission("ssh_keys.manage")
def create():
    form = Form(SshKeyIn)
    if form.submit(lambda **data: ssh_keys.create(get_current_access(), **data)):
        flash_message(_("Key %(name)s added.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return render("customer/ssh_keys/new.html", "form", status=form.status, form=form)


@bp.get("/generate")
@require_page_permission("ssh_keys.manage")
def show_generate_form():
    return render("customer/ssh_keys/generate.html", form=Form(SshKeyGenerate, initial={"algorithm": "ed25519"}))


@bp.post("/generate")
@require_page_permission("ssh_keys.manage")
def generate():
    """Generate a key pair. The private key is shown in the response itself and not stored, so there is no redirect."""
    form = Form(SshKeyGenerate)
    if form.submit(lambda **data: ssh_keys.generate(get_current_access(), **data)):
        key, private = form.result
        return render("customer/ssh_keys/generated.html", "once", key=key, private=private)
    return render("customer/ssh_keys/generate.html", "form", status=form.status, form=form)


@bp.get("/<key_id>")
@require_page_permission("ssh_keys.view")
def edit(key_id):
    key = ssh_keys.get(key_id, get_current_access())
    return render("customer/ssh_keys/edit.html", key=key, form=Form(SshKeyPatch, initial=key))


@bp.post("/<key_id>")
@require_page_permission("ssh_keys.manage")
def update(key_id):
    key = ssh_keys.get(key_id, get_current_access())
    form = Form(SshKeyPatch, initial=key)
    if form.submit(lambda **data: ssh_keys.update(key, **data)):
        flash_message(_("Key saved."))
        return redirect_to(url_for(".index"))
    return render("customer/ssh_keys/edit.html", "form", status=form.status, key=key, form=form)


@bp.post("/<key_id>/delete")
@require_page_permission("ssh_keys.delete")
def delete(key_id):
    key = ssh_keys.get(key_id, get_current_access())
    ssh_keys.delete(key)
    return build_action_response(_("Key %(name)s deleted.", name=key.name), url_for(".index"))
