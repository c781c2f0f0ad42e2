"""Subnets, their addresses and to which instance each address belongs."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Subnet
from panel.pages.admin import labels
from panel.schemas.constants import ADDRESS_USES
from panel.schemas.subnets import AddressPatch, SubnetIn, SubnetPatch
from panel.services import hypervisors, subnets
from panel.services.metrics.subnets import SUBNET_TIME_RANGES, get_subnet_series
from panel.web import charts
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_subnets", __name__, url_prefix="/admin/subnets")
NAVIGATION = NavigationEntry(
    "platform", "Subnets", "admin_subnets.index", icon="network", permission="admin:subnets:read", position=40
)


def subnet_url(subnet_id):
    return url_for("admin_subnets.show", subnet_id=subnet_id)


SEARCH_RESULTS = (
    SearchResults("subnet", "Subnets", icon="network", url=subnet_url),
    SearchResults("address", "Addresses", icon="map-pin", url=subnet_url),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:subnets:read", "admin:subnets:write"
SUBNET_KIND_OPTIONS = (
    ("public", lazy_gettext("Public addresses")),
    ("private", lazy_gettext("Private IPv4 addresses")),
    ("routed", lazy_gettext("Routed IPv6 prefixes")),
)
DEFAULT_TIME_RANGE = "1d"
ORDERS = {"name": Subnet.name}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(subnets.with_statistics(subnets.listing(search)), orders=ORDERS)
    return render("admin/subnets/index.html", "rows", page=page, search=search)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    form = Form(SubnetIn, initial={"enabled": True, "hypervisor_group_id": request.args.get("group")})
    return render("admin/subnets/new.html", form=form, groups=list_group_options(), kinds=SUBNET_KIND_OPTIONS)


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(SubnetIn)
    if form.submit(create_in_group):
        flash_message(_("Subnet %(name)s added.", name=form.result.name))
        return redirect_to(url_for(".show", subnet_id=form.result.id))
    return render(
        "admin/subnets/new.html",
        "form",
        status=form.status,
        form=form,
        groups=list_group_options(),
        kinds=SUBNET_KIND_OPTIONS,
    )


def create_in_group(hypervisor_group_id, **values):
    return subnets.create(hypervisors.get_group(hypervisor_group_id, "hypervisor_group_id"), **values)


def list_group_options():
    return session.execute(hypervisors.select_group_names()).all()


@bp.get("/<subnet_id>")
@require_page_permission(READ_PERMISSION)
def show(subnet_id):
    subnet = subnets.get(subnet_id)
    use = request.args.get("use")
    filters = {"search": request.args.get("search", "")[:45], "use": use if use in ADDRESS_USES else None}
    page = Page(subnets.select_addresses(subnet, **filters))
    context = {"filtered": any(filters.values()), "uses": labels.ADDRESS_USES.items()}
    return render("admin/subnets/show.html", "rows", subnet=subnet, page=page, **context)


@bp.get("/<subnet_id>/traffic")
@require_page_permission(READ_PERMISSION)
def show_traffic(subnet_id):
    subnet = subnets.get(subnet_id)
    return render("admin/subnets/traffic.html", subnet=subnet, series=load_series(subnet), charts=charts)


@bp.get("/<subnet_id>/traffic/data")
@require_page_permission(READ_PERMISSION)
def show_traffic_data(subnet_id):
    """Return the chart data as JSON, for the page's script."""
    return charts.build_plot_data(load_series(subnets.get(subnet_id)), {})


def load_series(subnet):
    """Return the requested series of the subnet, with its chart."""
    requested = request.args.get("range")
    time_range = requested if requested in SUBNET_TIME_RANGES else DEFAULT_TIME_RANGE
    return get_subnet_series(subnet, time_range) | {
        "charts": charts.SUBNET_CHARTS,
        "time_ranges": charts.SUBNET_TIME_RANGES,
    }


@bp.get("/<subnet_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def edit(subnet_id):
    subnet = subnets.get(subnet_id)
    return render("admin/subnets/edit.html", subnet=subnet, form=Form(SubnetPatch, initial=subnet))


@bp.post("/<subnet_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def update(subnet_id):
    subnet = subnets.get(subnet_id)
    form = Form(SubnetPatch)
    if form.submit(lambda **data: subnets.update(subnet, **data)):
        flash_message(_("Subnet %(name)s saved.", name=subnet.name))
        return redirect_to(url_for(".show", subnet_id=subnet.id))
    return render("admin/subnets/edit.html", "form", status=form.status, subnet=subnet, form=form)


@bp.post("/<subnet_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(subnet_id):
    subnet = subnets.get(subnet_id)
    subnets.delete(subnet)
    flash_message(_("Subnet %(name)s removed.", name=subnet.name))
    return redirect_to(url_for(".index"))


@bp.post("/addresses/<address_id>")
@require_page_permission(WRITE_PERMISSION)
def reserve(address_id):
    """Reserve an address, or end the reservation."""
    address = subnets.get_address(address_id)
    form = Form(AddressPatch)
    now = {"reserved": address.reserved, "note": address.note}
    if not form.submit(lambda **data: subnets.set_reserved(address, **now | data)):
        raise Invalid(" ".join(form.errors.values()))
    message = _("%(address)s released.", address=address.ip)
    if address.reserved:
        message = _("%(address)s reserved. It is not assigned to instances.", address=address.ip)
    return build_action_response(message, url_for(".show", subnet_id=address.subnet_id))
