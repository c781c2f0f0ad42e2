"""Resource packs: budgets from which customers provision instances."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core.db import session
from panel.core.errors import Invalid
from panel.schemas.base import Text
from panel.schemas.resource_packs import PackIn, PackPatch
from panel.services import billing_users, hypervisors, resource_packs
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_resource_packs", __name__, url_prefix="/admin/resource-packs")
NAVIGATION = NavigationEntry(
    "customers",
    "Resource packs",
    "admin_resource_packs.index",
    icon="package",
    permission="admin:billing:read",
    position=60,
)
READ_PERMISSION, WRITE_PERMISSION = "admin:billing:read", "admin:billing:write"


class PackForm(PackIn):
    user_id = Text(maximum=255, required=True)
    """The form identifies the customer by email address."""


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    user_id = request.args.get("user", "")[:36] or None
    page = Page(resource_packs.with_usage(resource_packs.listing(user_id=user_id)))
    return render("admin/resource_packs/index.html", "rows", page=page, user_id=user_id)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return form_page(Form(PackForm, initial={"enabled": True, "user_id": request.args.get("user"), "instances": 0}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(PackForm)
    if form.submit(create_pack):
        flash_message(
            _("Resource pack %(name)s added for %(email)s.", name=form.result.name, email=form.result.owner_email)
        )
        return redirect_to(url_for(".index"))
    return form_page(form)


def create_pack(user_id, **values):
    if "@" in user_id:
        customer = session.scalar(billing_users.listing(email=user_id))
        if customer is None:
            raise Invalid(_("Customer not found."), user_id=_("No customer has this email address."))
        user_id = customer.id
    return resource_packs.create(user_id=user_id, **values)


@bp.get("/<pack_id>")
@require_page_permission(READ_PERMISSION)
def edit(pack_id):
    pack = resource_packs.get(pack_id)
    initial = {name: getattr(pack, name) for name in PackPatch().fields if name != "location_id"}
    return form_page(
        Form(PackPatch, initial={**initial, "price": f"{pack.price.normalize():f}", "location_id": pack.group_id}), pack
    )


@bp.post("/<pack_id>")
@require_page_permission(WRITE_PERMISSION)
def update(pack_id):
    form = Form(PackPatch)
    if form.submit(lambda **data: resource_packs.update(resource_packs.get(pack_id), **data)):
        flash_message(_("Resource pack saved."))
        return redirect_to(url_for(".index"))
    return form_page(form, resource_packs.get(pack_id))


def form_page(form, pack=None):
    groups = session.execute(hypervisors.select_group_names()).all()
    return render("admin/resource_packs/form.html", "form", status=form.status, form=form, pack=pack, groups=groups)


@bp.post("/<pack_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(pack_id):
    pack = resource_packs.get(pack_id)
    resource_packs.delete(pack)
    return build_action_response(_("Resource pack %(name)s removed.", name=pack.name), url_for(".index"))
