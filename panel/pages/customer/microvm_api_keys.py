"""Keys of the sandbox API, and how SDKs use them."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_access, permission_error, require_page_permission
from panel.core import context
from panel.schemas.microvm_api_keys import MicrovmApiKeyIn
from panel.services import microvm_api_keys, tokens
from panel.services.usage import billing_error, ensure_billing_enabled
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import build_action_response, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("microvm_api_keys", __name__, url_prefix="/sandbox-keys")
NAVIGATION = NavigationEntry(
    "compute",
    "Sandbox keys",
    "microvm_api_keys.index",
    icon="key",
    permission="microvm.view",
    position=40,
    is_billed=True,
)
PALETTE_ACTIONS = (
    PaletteAction("Create sandbox key", "microvm_api_keys.new", icon="key", permission="microvm.manage", position=55),
)
SEARCH_RESULTS = (
    SearchResults("microvm_api_key", "Sandbox keys", icon="key", url=lambda row: url_for("microvm_api_keys.index")),
)
SAMPLE_VALUE = "e2b_…"
"""What stands for the value in examples, where it is not known any more."""

PYTHON_LIFECYCLE = """\
from e2b import Sandbox

sandbox = Sandbox.create(timeout=300)
print(sandbox.get_info())
sandbox.kill()
"""
PYTHON_COMMANDS = """\
from e2b import Sandbox

sandbox = Sandbox.create(timeout=300)
print(sandbox.commands.run("uname -a").stdout)
sandbox.kill()
"""
JAVASCRIPT_LIFECYCLE = """\
import { Sandbox } from "e2b"

const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
console.log(await sandbox.getInfo())
await sandbox.kill()
"""
JAVASCRIPT_COMMANDS = """\
import { Sandbox } from "e2b"

const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
console.log((await sandbox.commands.run("uname -a")).stdout)
await sandbox.kill()
"""
CLI_LIFECYCLE = """\
e2b sandbox create --detach
e2b sandbox list
e2b sandbox kill SANDBOX_ID
"""
CLI_COMMANDS = """\
e2b sandbox create --detach
e2b sandbox list
e2b sandbox exec SANDBOX_ID -- uname -a
e2b sandbox kill SANDBOX_ID
"""


def build_variables(value):
    """Return the lines that set the SDKs' environment variables."""
    config = context.current().config
    if config.sandbox_domain:  # it leads to the API and to the router
        variables = {"E2B_DOMAIN": config.sandbox_domain}
    else:
        variables = {"E2B_API_URL": f"{config.public_url.rstrip('/')}/api/sbx"}
        if config.sandbox_url:
            variables["E2B_SANDBOX_URL"] = config.sandbox_url.rstrip("/")
    variables["E2B_API_KEY"] = value
    return "".join(f"export {name}={text}\n" for name, text in variables.items())


def describe_usage(value):
    """Return what the examples of a page need. `examples` are (name, how to install it, example) of the SDKs and the
    CLI: without a way to the router they only create and end sandboxes."""
    config = context.current().config
    can_run_commands = bool(config.sandbox_domain or config.sandbox_url)
    examples = (
        (_("Python"), "pip install e2b\n", PYTHON_COMMANDS if can_run_commands else PYTHON_LIFECYCLE),
        (_("JavaScript"), "npm install e2b\n", JAVASCRIPT_COMMANDS if can_run_commands else JAVASCRIPT_LIFECYCLE),
        (_("Command line"), "npm install --global @e2b/cli\n", CLI_COMMANDS if can_run_commands else CLI_LIFECYCLE),
    )
    return {
        "variables": build_variables(value),
        "examples": examples,
        "can_run_commands": can_run_commands,
        "has_domain": bool(config.sandbox_domain),
    }


def build_page_context():
    """Return why the viewer may not create keys, and whether that is because billing is off."""
    access = get_current_access()
    return {
        "create_error": permission_error("microvm.manage") or microvm_api_keys.create_error(access),
        "billing_error": billing_error(access),
    }


@bp.get("")
@require_page_permission("microvm.view")
def index():
    page = Page(microvm_api_keys.listing(get_current_access()))
    tokens.refresh_last_used(page.rows)
    return render("customer/microvm_api_keys/index.html", "rows", page=page, **build_page_context())


@bp.get("/new")
@require_page_permission("microvm.manage")
def new():
    return render("customer/microvm_api_keys/new.html", form=Form(MicrovmApiKeyIn), **build_page_context())


@bp.post("/new")
@require_page_permission("microvm.manage")
def create():
    ensure_billing_enabled(get_current_access())
    form = Form(MicrovmApiKeyIn)
    if form.submit(lambda **data: microvm_api_keys.create(get_current_access(), **data)):
        key, value = form.result
        flash_secrets.store(key.id, value)
        return redirect_to(url_for(".created", key_id=key.id))
    return render("customer/microvm_api_keys/new.html", "form", status=form.status, form=form, **build_page_context())


@bp.get("/<key_id>/made")
@require_page_permission("microvm.manage")
def created(key_id):
    """Show the new key's value once. A reload redirects to the list."""
    value = flash_secrets.pop(key_id)
    if value is None:
        return redirect_to(url_for(".index"))
    return render(
        "customer/microvm_api_keys/created.html",
        key=microvm_api_keys.get(key_id, get_current_access()),
        value=value,
        **describe_usage(value),
    )


@bp.get("/sdk")
@require_page_permission("microvm.view")
def usage():
    return render("customer/microvm_api_keys/usage.html", **describe_usage(SAMPLE_VALUE))


@bp.post("/<key_id>/revoke")
@require_page_permission("microvm.delete")
def revoke(key_id):
    key = microvm_api_keys.revoke(microvm_api_keys.get(key_id, get_current_access()))
    return build_action_response(
        _("Key %(name)s (%(prefix)s…) revoked.", name=key.name, prefix=key.prefix), url_for(".index")
    )
