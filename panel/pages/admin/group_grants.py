"""Location grants: all customers, or only those with a grant, may choose a location."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.schemas.accounts import Email
from panel.schemas.base import In
from panel.services import accounts, group_grants, hypervisors, owner_emails
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_group_grants", __name__, url_prefix="/admin/locations/<group_id>/access")
READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"


class GrantForm(In):
    owner = Email(required=True)


@bp.get("")
@require_page_permission(READ_PERMISSION)
def show(group_id):
    return grants_page(group_id, Form(GrantForm), "rows")


def grants_page(group_id, form, block):
    group, search = hypervisors.get_group(group_id), request.args.get("search", "")[:255]
    context = {"page": Page(group_grants.select_grants(group, search)), "filtered": bool(search)}
    context["affected"] = group_grants.count_affected(group, public=False) if group.public else None
    return render("admin/group_grants/show.html", block, status=form.status, group=group, form=form, **context)


@bp.post("/<any(open, close):state>")
@require_page_permission(WRITE_PERMISSION)
def switch(group_id, state):
    group = group_grants.set_access(hypervisors.get_group(group_id), public=state == "open")
    if group.public:
        flash_message(_("All customers can choose %(name)s.", name=group.display_name))
    else:
        flash_message(_("Only customers with a grant can choose %(name)s.", name=group.display_name))
    return redirect_to(url_for(".show", group_id=group_id))


@bp.post("/grant")
@require_page_permission(WRITE_PERMISSION)
def grant(group_id):
    group, form = hypervisors.get_group(group_id), Form(GrantForm)
    if form.submit(lambda owner: group_grants.grant(group, owner_emails.get_account_by_email(owner), "owner")):
        flash_message(_("%(email)s can choose %(name)s.", email=form.get_value("owner"), name=group.display_name))
        return redirect_to(url_for(".show", group_id=group_id))
    return grants_page(group_id, form, "form")


@bp.post("/<account_id>/revoke")
@require_page_permission(WRITE_PERMISSION)
def revoke(group_id, account_id):
    account = accounts.get(account_id)
    group_grants.revoke(hypervisors.get_group(group_id), account)
    return build_action_response(
        _("Grant of %(email)s revoked.", email=account.email), url_for(".show", group_id=group_id)
    )
