"""Warm pools of the hypervisors that take micro VMs. The list is on the profile's page."""

from flask import Blueprint, url_for

from panel.auth.browser_session import require_page_permission
from panel.schemas.microvm_pools import MicrovmPoolIn, MicrovmPoolPatch
from panel.services.microvms import pools, profiles
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("admin_microvm_pools", __name__, url_prefix="/admin/microvms")
READ_PERMISSION, WRITE_PERMISSION = "admin:microvm:read", "admin:microvm:write"


def make_profile_url(profile_id):
    return url_for("admin_microvms.edit_profile", profile_id=profile_id)


@bp.get("/hypervisors/<profile_id>/pools/new")
@require_page_permission(WRITE_PERMISSION)
def new(profile_id):
    profile = profiles.get(profile_id)
    return form_page(Form(MicrovmPoolIn, initial={"hypervisor_id": profile.hypervisor_id, "count": 2}), profile)


@bp.post("/hypervisors/<profile_id>/pools/new")
@require_page_permission(WRITE_PERMISSION)
def create(profile_id):
    profile, form = profiles.get(profile_id), Form(MicrovmPoolIn)
    if form.submit(pools.create):
        flash_message(_("Pool added. Its first member is ready in a minute or so."))
        return redirect_to(make_profile_url(profile_id))
    return form_page(form, profile)


@bp.get("/pools/<pool_id>")
@require_page_permission(READ_PERMISSION)
def edit(pool_id):
    pool = pools.get(pool_id)
    return form_page(Form(MicrovmPoolPatch, initial={"count": pool.count}), pool.profile, pool)


@bp.post("/pools/<pool_id>")
@require_page_permission(WRITE_PERMISSION)
def update(pool_id):
    pool, form = pools.get(pool_id), Form(MicrovmPoolPatch)
    if form.submit(lambda **values: pools.resize(pools.get(pool_id), **values)):
        flash_message(_("Pool saved."))
        return redirect_to(make_profile_url(pool.profile_id))
    return form_page(form, profiles.get(pool.profile_id), pools.get(pool_id))


def form_page(form, profile, pool=None):
    context = {"profile": profile, "pool": pool, "images": pools.list_image_choices()}
    return render("admin/microvms/pool_form.html", "form", status=form.status, form=form, **context)


@bp.post("/pools/<pool_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(pool_id):
    pool = pools.get(pool_id)
    profile_id = pool.profile_id
    pools.delete(pool)
    return build_action_response(_("Pool deleted."), make_profile_url(profile_id))
