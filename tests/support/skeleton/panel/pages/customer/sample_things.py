"""Sample things: the list, and forms to create and change one."""

from flask import Blueprint, url_for
from panel.schemas.sample_things import SampleThingIn, SampleThingPatch

from panel.auth.browser_session import (
    get_current_access,
    # if task
    get_current_actor,
    # end if
    require_page_permission,
)
from panel.services import sample_things
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("sample_things", __name__, url_prefix="/sample-things")
NAVIGATION = NavigationEntry(
    "sample_group",
    "Sample things",
    "sample_things.index",
    icon="box",
    permission="sample_family.view",
    position=9001,
)
PALETTE_ACTIONS = (
    PaletteAction(
        "Add sample thing",
        "sample_things.new",
        icon="plus",
        permission="sample_family.manage",
        position=9002,
    ),
)


@bp.get("")
@require_page_permission("sample_family.view")
def index():
    page = Page(sample_things.listing(get_current_access()))
    return render("customer/sample_things/index.html", "rows", page=page)


@bp.get("/new")
@require_page_permission("sample_family.manage")
def new():
    return render("customer/sample_things/new.html", form=Form(SampleThingIn))


@bp.post("/new")
@require_page_permission("sample_family.manage")
def create():
    form = Form(SampleThingIn)
    if form.submit(
        lambda **data: sample_things.create(
            get_current_access(),
            # if task
            actor=get_current_actor(),
            # end if
            **data,
        )
    ):
        flash_message(_("Sample thing %(name)s created.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return render("customer/sample_things/new.html", "form", status=form.status, form=form)


@bp.get("/<sample_thing_id>")
@require_page_permission("sample_family.view")
def edit(sample_thing_id):
    sample_thing = sample_things.get(sample_thing_id, get_current_access())
    form = Form(SampleThingPatch, initial=sample_thing)
    return render("customer/sample_things/edit.html", sample_thing=sample_thing, form=form)


@bp.post("/<sample_thing_id>")
@require_page_permission("sample_family.manage")
def update(sample_thing_id):
    sample_thing = sample_things.get(sample_thing_id, get_current_access())
    form = Form(SampleThingPatch, initial=sample_thing)
    if form.submit(
        lambda **data: sample_things.update(
            sample_thing,
            # if task
            actor=get_current_actor(),
            # end if
            **data,
        )
    ):
        flash_message(_("Sample thing %(name)s changed.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return render("customer/sample_things/edit.html", "form", status=form.status, sample_thing=sample_thing, form=form)


@bp.post("/<sample_thing_id>/delete")
@require_page_permission("sample_family.delete")
def delete(sample_thing_id):
    sample_thing = sample_things.get(sample_thing_id, get_current_access())
    sample_things.delete(sample_thing)
    return build_action_response(_("Sample thing %(name)s deleted.", name=sample_thing.name), url_for(".index"))
