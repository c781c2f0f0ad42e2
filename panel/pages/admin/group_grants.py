"""Who may choose a location: everybody, or customers with a grant."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import page_can
from panel.schemas.accounts import Email
from panel.schemas.base import In
from panel.services import accounts, group_grants, hypervisors, owner_emails
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("admin_group_grants", __name__, url_prefix="/admin/locations/<group_id>/access")
READ, WRITE = "admin:hypervisors:read", "admin:hypervisors:write"


class Granted(In):
    owner = Email(required=True)


@bp.get("")
@page_can(READ)
def show(group_id):
    return shown(group_id, Form(Granted), "rows")


def shown(group_id, form, block):
    group, search = hypervisors.group(group_id), request.args.get("search", "")[:255]
    context = {"page": Page(group_grants.grants(group, search)), "filtered": bool(search)}
    context["affected"] = group_grants.affected(group, public=False) if group.public else None
    return render("admin/group_grants/show.html", block, status=form.status, group=group, form=form, **context)


@bp.post("/<any(open, close):way>")
@page_can(WRITE)
def switch(group_id, way):
    group = group_grants.change(hypervisors.group(group_id), public=way == "open")
    words = "Every customer may choose" if group.public else "Only customers with a grant may choose"
    say(f"{words} {group.display_name}.")
    return go(url_for(".show", group_id=group_id))


@bp.post("/grant")
@page_can(WRITE)
def grant(group_id):
    group, form = hypervisors.group(group_id), Form(Granted)
    if form.submit(lambda owner: group_grants.grant(group, owner_emails.named(owner), "owner")):
        say(f"{form.value('owner')} may choose {group.display_name}.")
        return go(url_for(".show", group_id=group_id))
    return shown(group_id, form, "form")


@bp.post("/<account_id>/revoke")
@page_can(WRITE)
def revoke(group_id, account_id):
    account = accounts.get(account_id)
    group_grants.revoke(hypervisors.group(group_id), account)
    return did(f"The grant of {account.email} is taken back.", url_for(".show", group_id=group_id))
