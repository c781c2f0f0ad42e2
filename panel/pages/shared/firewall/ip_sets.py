"""IP sets: named lists of networks for the rules of security groups."""

from flask import request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor
from panel.models import IpSet
from panel.pages.shared.area import SharedViews, has_permission, is_operator_area, scope_account
from panel.schemas.base import Text
from panel.schemas.ip_sets import IpSetBulk, IpSetIn, IpSetPatch
from panel.services import ip_sets, owner_emails
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import ngettext, translate

VIEWS = SharedViews()
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = "ip_sets.view", "ip_sets.manage", "ip_sets.delete"


class OwnedIpSetForm(IpSetIn):
    """The operators' form, which also has the owner."""

    owner = Text(load_default=None)


def get_visible(set_id):
    return ip_sets.get(set_id, scope_account())


def get_own(set_id):
    return ip_sets.get_own(set_id, scope_account())


ORDERS = {"name": IpSet.name}


@VIEWS.page("GET", "", can=VIEW_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(ip_sets.listing(scope_account(), search=search), orders=ORDERS)
    emails = owner_emails.map_emails(page.rows) if is_operator_area() else {}
    return render("customer/ip_sets/index.html", "rows", page=page, filtered=bool(search), emails=emails)


@VIEWS.page("GET", "/new", can=MANAGE_PERMISSION)
def new():
    return form_page(Form(IpSetIn, initial={"ip_version": "ipv4"}))


@VIEWS.page("POST", "/new", can=MANAGE_PERMISSION)
def create():
    form = Form(OwnedIpSetForm if is_operator_area() else IpSetIn)
    if form.submit(create_set):
        flash_message(_("IP set %(name)s created. Add networks to it.", name=form.result.name))
        return redirect_to(url_for(".show", set_id=form.result.id))
    return form_page(form)


def create_set(owner=None, **data):
    return ip_sets.create(
        owner_emails.get_account_by_email(owner) if is_operator_area() else get_current_access(), **data
    )


def form_page(form, ip_set=None):
    return render("customer/ip_sets/form.html", "form", status=form.status, form=form, ip_set=ip_set)


@VIEWS.page("GET", "/<set_id>", can=VIEW_PERMISSION)
def show(set_id):
    return set_page(set_id, Form(IpSetBulk), "live")


def set_page(set_id, form, block):
    ip_set = get_visible(set_id)
    context = {
        "ip_set": ip_set,
        "form": form,
        "disabled_reason": change_error(ip_set),
        "owner": is_operator_area() and owner_emails.find_account(ip_set),
    }
    return render("customer/ip_sets/show.html", block, status=form.status, **context)


def change_error(ip_set):
    """Return why the viewer cannot change the set, or None."""
    if ip_set.is_global and not is_operator_area():
        return _("This set is managed by the platform.")
    return None if has_permission(MANAGE_PERMISSION) else _("You can view IP sets but not change them.")


@VIEWS.page("GET", "/<set_id>/edit", can=VIEW_PERMISSION)
def edit(set_id):
    ip_set = get_visible(set_id)
    return form_page(Form(IpSetPatch, initial=ip_set), ip_set)


@VIEWS.page("POST", "/<set_id>/edit", can=MANAGE_PERMISSION)
def change(set_id):
    ip_set, form = get_own(set_id), Form(IpSetPatch)
    if form.submit(lambda **data: ip_sets.update(ip_set, **data)):
        flash_message(_("IP set saved."))
        return redirect_to(url_for(".show", set_id=set_id))
    return form_page(form, get_own(set_id))


@VIEWS.page("POST", "/<set_id>/delete", can=DELETE_PERMISSION)
def delete(set_id):
    ip_set = get_own(set_id)
    name = ip_set.name
    ip_sets.delete(ip_set)
    flash_message(_("IP set %(name)s deleted.", name=name))
    return redirect_to(url_for(".index"))


@VIEWS.page("POST", "/<set_id>/entries", can=MANAGE_PERMISSION)
def add(set_id):
    """Add the valid networks. The message lists the others with the reason."""
    ip_set, form = get_own(set_id), Form(IpSetBulk)
    if not form.submit(lambda cidrs: ip_sets.add_entries(ip_set, cidrs, actor=get_current_actor())):
        return set_page(set_id, form, "entries")
    entries, failures = form.result
    added = ngettext("%(num)s network added.", "%(num)s networks added.", len(entries))
    refused = [f"{cidr}: {translate(error)}" for cidr, error in failures[:5]]
    return build_action_response(
        " ".join([added, *refused]), url_for(".show", set_id=set_id), "warning" if failures else None
    )


@VIEWS.page("POST", "/<set_id>/entry/<entry_id>/delete", can=MANAGE_PERMISSION)
def remove(set_id, entry_id):
    ip_sets.remove_entry(get_own(set_id), entry_id, actor=get_current_actor())
    return build_action_response(_("Network removed."), url_for(".show", set_id=set_id))
