"""The roles of operators: the list and the form."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.auth.operator_roles import list_roles
from panel.pages.admin import labels
from panel.schemas.constants import GRANTABLE_OPERATOR_PERMISSIONS
from panel.schemas.operator_roles import OperatorRoleIn, OperatorRolePatch
from panel.services import operator_roles
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import PaletteAction
from panel.web.paging import Page, parse_page_number, parse_requested_page_size
from panel.web.translation import gettext as _

bp = Blueprint("admin_operator_roles", __name__, url_prefix="/admin/roles")
READ_PERMISSION, WRITE_PERMISSION = "admin:operators:read", "admin:operators:write"
PALETTE_ACTIONS = (
    PaletteAction("Roles", "admin_operator_roles.index", icon="shield-lock", permission=READ_PERMISSION, position=325),
    PaletteAction("Add role", "admin_operator_roles.new", icon="plus", permission=WRITE_PERMISSION, position=330),
)


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    return render(
        "admin/operator_roles/index.html",
        "rows",
        page=Page.from_list(list_roles(), parse_page_number(request.args.get("page")), parse_requested_page_size()),
        labels=labels.OPERATOR_ROLES,
        descriptions=labels.OPERATOR_ROLE_DESCRIPTIONS,
        grantable=GRANTABLE_OPERATOR_PERMISSIONS,
    )


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return form_page(Form(OperatorRoleIn))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(OperatorRoleIn)
    if form.submit(operator_roles.create):
        flash_message(_("Role %(name)s added.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return form_page(form)


@bp.get("/<role_name>")
@require_page_permission(READ_PERMISSION)
def edit(role_name):
    role = operator_roles.get(role_name)
    return form_page(Form(OperatorRolePatch, initial=role), role)


@bp.post("/<role_name>")
@require_page_permission(WRITE_PERMISSION)
def update(role_name):
    role = operator_roles.get(role_name)
    form = Form(OperatorRolePatch)
    if form.submit(lambda **changes: operator_roles.update(role, **changes)):
        flash_message(_("Role %(name)s saved. It takes effect immediately.", name=role_name))
        return redirect_to(url_for(".index"))
    return form_page(form, operator_roles.get(role_name))


@bp.post("/<role_name>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(role_name):
    operator_roles.delete(operator_roles.get(role_name))
    return build_action_response(_("Role %(name)s deleted.", name=role_name), url_for(".index"))


def form_page(form, role=None):
    return render(
        "admin/operator_roles/form.html",
        "form",
        status=form.status,
        form=form,
        role=role,
        grantable=GRANTABLE_OPERATOR_PERMISSIONS,
    )
