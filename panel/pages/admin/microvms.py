"""All customers' micro VMs, and the hypervisors that take them."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core import context
from panel.core.db import session
from panel.models.microvms import DEFAULT_ADDRESS_RANGE, DEFAULT_NAMESERVERS
from panel.pages.shared.microvms import destroy_confirmed, find_or_render_ended
from panel.schemas.microvms import MICROVM_STATES, MicrovmProfileIn, MicrovmProfilePatch
from panel.services import hypervisors, microvms
from panel.services.microvms import pools, profiles
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_microvms", __name__, url_prefix="/admin/microvms")
NAVIGATION = NavigationEntry(
    "resources", "Micro VMs", "admin_microvms.index", icon="cpu", permission="admin:microvm:read", position=15
)
SEARCH_RESULTS = (
    SearchResults(
        "microvm", "Micro VMs", icon="cpu", url=lambda row_id: url_for("admin_microvms.show", microvm_id=row_id)
    ),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:microvm:read", "admin:microvm:write"


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    state = request.args.get("state") if request.args.get("state") in MICROVM_STATES else None
    filters = {"search": request.args.get("search", "")[:255], "state": state}
    page = Page(microvms.listing(**filters))
    return render("admin/microvms/index.html", "rows", page=page, filtered=any(filters.values()))


@bp.get("/<microvm_id>")
@require_page_permission(READ_PERMISSION)
def show(microvm_id):
    microvm, ended = find_or_render_ended(microvm_id)
    if ended:
        return ended
    context = {
        "microvm": microvm,
        "usage": microvms.usages.find(microvm),
        "snapshots": session.scalars(microvms.snapshots.listing(microvm)).all(),
        "connectors": session.scalars(microvms.connectors.listing(microvm_id=microvm.id)).all(),
    }
    return render("admin/microvms/show.html", "live", **context)


@bp.post("/<microvm_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(microvm_id):
    destroy_confirmed(microvms.get(microvm_id))
    return redirect_to(url_for(".index"))


@bp.get("/hypervisors")
@require_page_permission(READ_PERMISSION)
def profile_index():
    page = Page(profiles.listing())
    usage = profiles.count_usage(profile.hypervisor_id for profile in page)
    config = context.current().config
    has_router = bool(config.sandbox_domain or config.sandbox_url)
    return render("admin/microvms/profiles.html", "rows", page=page, usage=usage, has_router=has_router)


@bp.get("/hypervisors/new")
@require_page_permission(WRITE_PERMISSION)
def new_profile():
    initial = {
        **{"enabled": True, "max_microvms": 0, "max_memory_mb": 0, "allows_internet_access": False},
        **{"address_range": DEFAULT_ADDRESS_RANGE, "nameservers": DEFAULT_NAMESERVERS, "refused_networks": []},
    }
    return profile_form_page(Form(MicrovmProfileIn, initial=initial))


@bp.post("/hypervisors/new")
@require_page_permission(WRITE_PERMISSION)
def create_profile():
    form = Form(MicrovmProfileIn)
    if form.submit(profiles.create):
        flash_message(_("%(name)s takes micro VMs.", name=form.result.name))
        return redirect_to(url_for(".profile_index"))
    return profile_form_page(form)


@bp.get("/hypervisors/<profile_id>")
@require_page_permission(READ_PERMISSION)
def edit_profile(profile_id):
    profile = profiles.get(profile_id)
    initial = {name: getattr(profile, name) for name in MicrovmProfilePatch().fields}
    return profile_form_page(Form(MicrovmProfilePatch, initial=initial), profile, block="pools")


@bp.post("/hypervisors/<profile_id>")
@require_page_permission(WRITE_PERMISSION)
def update_profile(profile_id):
    form = Form(MicrovmProfilePatch)
    if form.submit(lambda **values: profiles.update(profiles.get(profile_id), **values)):
        flash_message(_("Profile saved."))
        return redirect_to(url_for(".profile_index"))
    return profile_form_page(form, profiles.get(profile_id))


def profile_form_page(form, profile=None, block="form"):
    context = {
        "profile": profile,
        "hypervisors": session.execute(hypervisors.select_names()).all(),
        "pools": session.scalars(pools.listing(profile.hypervisor_id)).all() if profile else (),
    }
    return render("admin/microvms/profile_form.html", block, status=form.status, form=form, **context)


@bp.post("/hypervisors/<profile_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete_profile(profile_id):
    profile = profiles.get(profile_id)
    name = profile.name
    profiles.delete(profile)
    return build_action_response(_("Profile of %(name)s removed.", name=name), url_for(".profile_index"))
