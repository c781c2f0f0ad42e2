"""Subnets: address space, and which address is whose."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import page_can
from panel.core.db import session
from panel.core.errors import Invalid
from panel.schemas.constants import ADDRESS_USES
from panel.schemas.subnets import AddressPatch, SubnetIn, SubnetPatch
from panel.services import hypervisors, subnets
from panel.web.formatting import worded
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("admin_subnets", __name__, url_prefix="/admin/subnets")
READ, WRITE = "admin:subnets:read", "admin:subnets:write"
KINDS = (
    ("public", "Public addresses"),
    ("private", "Private IPv4 addresses"),
    ("routed", "Routed IPv6 prefixes"),
)


@bp.get("")
@page_can(READ)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(subnets.listing(search))
    subnets.weigh(page.rows)
    return render("admin/subnets/index.html", "rows", page=page, search=search)


@bp.get("/new")
@page_can(WRITE)
def new():
    form = Form(SubnetIn, known={"enabled": True, "hypervisor_group_id": request.args.get("group")})
    return render("admin/subnets/new.html", form=form, groups=groups(), kinds=KINDS)


@bp.post("/new")
@page_can(WRITE)
def create():
    form = Form(SubnetIn)
    if form.submit(add):
        say(f"The subnet {form.result.name} is added.")
        return go(url_for(".show", subnet_id=form.result.id))
    return render("admin/subnets/new.html", "form", status=form.status, form=form, groups=groups(), kinds=KINDS)


def add(hypervisor_group_id, **values):
    return subnets.create(hypervisors.group(hypervisor_group_id, "hypervisor_group_id"), **values)


def groups():
    return session.execute(hypervisors.group_names()).all()


@bp.get("/<subnet_id>")
@page_can(READ)
def show(subnet_id):
    subnet = subnets.get(subnet_id)
    use = request.args.get("use")
    wanted = {"search": request.args.get("search", "")[:45], "use": use if use in ADDRESS_USES else None}
    page = Page(subnets.addresses(subnet, **wanted))
    subnets.weigh([subnet])
    context = {"filtered": any(wanted.values()), "uses": worded(ADDRESS_USES)}
    return render("admin/subnets/show.html", "rows", subnet=subnet, page=page, **context)


@bp.get("/<subnet_id>/edit")
@page_can(WRITE)
def edit(subnet_id):
    subnet = subnets.get(subnet_id)
    return render("admin/subnets/edit.html", subnet=subnet, form=Form(SubnetPatch, known=subnet))


@bp.post("/<subnet_id>/edit")
@page_can(WRITE)
def update(subnet_id):
    subnet = subnets.get(subnet_id)
    form = Form(SubnetPatch)
    if form.submit(lambda **data: subnets.update(subnet, **data)):
        say(f"The subnet {subnet.name} is changed.")
        return go(url_for(".show", subnet_id=subnet.id))
    return render("admin/subnets/edit.html", "form", status=form.status, subnet=subnet, form=form)


@bp.post("/<subnet_id>/delete")
@page_can(WRITE)
def delete(subnet_id):
    subnet = subnets.get(subnet_id)
    subnets.delete(subnet)
    say(f"The subnet {subnet.name} is removed.")
    return go(url_for(".index"))


@bp.post("/addresses/<address_id>")
@page_can(WRITE)
def reserve(address_id):
    """Reserves an address, or lets it go again."""
    address = subnets.address(address_id)
    form = Form(AddressPatch)
    now = {"reserved": address.reserved, "note": address.note}
    if not form.submit(lambda **data: subnets.reserve(address, **now | data)):
        raise Invalid(" ".join(form.errors.values()))
    words = "is reserved: no machine gets it." if address.reserved else "may be given out again."
    return did(f"{address.ip} {words}", url_for(".show", subnet_id=address.subnet_id))
