"""Locations: hypervisor groups, as customers choose them."""

from decimal import Decimal

from flask import Blueprint, request, url_for

from panel.auth import permissions_in_use
from panel.auth.browser_session import require_page_permission
from panel.core.db import session
from panel.schemas.hypervisors import HypervisorGroupIn, HypervisorGroupPatch
from panel.services import backup_policies, catalog, hypervisors
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_hypervisor_groups", __name__, url_prefix="/admin/locations")
NAVIGATION = NavigationEntry(
    "platform",
    "Locations",
    "admin_hypervisor_groups.index",
    icon="map-pin",
    permission="admin:hypervisors:read",
    position=30,
)
SEARCH_RESULTS = (
    SearchResults(
        "location",
        "Locations",
        icon="map-pin",
        url=lambda row_id: url_for("admin_hypervisor_groups.edit", group_id=row_id),
    ),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"
GROUP_SWITCHES = {
    "public_networking_enabled": lazy_gettext("Public IP addresses"),
    "vpc_enabled": lazy_gettext("Private networks"),
    "natgw_enabled": lazy_gettext("NAT gateways"),
    "lb_enabled": lazy_gettext("Load balancers"),
    "db_enabled": lazy_gettext("Managed databases"),
    "microvm_enabled": lazy_gettext("Micro VMs"),
    "image_enabled": lazy_gettext("Custom images"),
    "autoscaling_enabled": lazy_gettext("Scaling groups"),
    "static_ip_enabled": lazy_gettext("Static IPs"),
    "vpngw_enabled": lazy_gettext("VPN gateways"),
}
"""{switch of a location: its label on the page}"""
FAMILY_OF_SWITCH = {
    "vpc_enabled": "vpcs",
    "natgw_enabled": "nat_gateways",
    "lb_enabled": "load_balancers",
    "db_enabled": "databases",
    "microvm_enabled": "microvm",
    "image_enabled": "images",
    "autoscaling_enabled": "scaling_groups",
    "static_ip_enabled": "static_ips",
    "vpngw_enabled": "vpn_gateways",
}
"""{switch: family of resources that it closes}. Switches of families that the panel lacks are not shown."""
LOCATION_DEFAULTS = {
    "enabled": True,
    **dict.fromkeys(GROUP_SWITCHES, True),
    "backup_mode": "full",
    "natgw_bandwidth_accounting": "total",
}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    return render(
        "admin/hypervisor_groups/index.html", "rows", page=Page(hypervisors.select_groups(search)), search=search
    )


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return form_page(Form(HypervisorGroupIn, initial=LOCATION_DEFAULTS))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(HypervisorGroupIn)
    if form.submit(lambda **data: hypervisors.create_group(**resolve_plan_groups(data))):
        flash_message(_("Location %(name)s added. Now add hypervisors and a subnet.", name=form.result.display_name))
        return redirect_to(url_for(".index"))
    return form_page(form)


@bp.get("/<group_id>")
@require_page_permission(READ_PERMISSION)
def edit(group_id):
    group = hypervisors.get_group(group_id)
    initial = {name: getattr(group, name) for name in HypervisorGroupPatch().fields if name != "plan_groups"}
    initial |= {name: float(value) for name, value in initial.items() if isinstance(value, Decimal)}
    initial["plan_groups"] = [plan_group.id for plan_group in group.plan_groups]
    return form_page(Form(HypervisorGroupPatch, initial=initial), group)


@bp.post("/<group_id>")
@require_page_permission(WRITE_PERMISSION)
def update(group_id):
    group = hypervisors.get_group(group_id)
    form = Form(HypervisorGroupPatch)
    if form.submit(lambda **data: hypervisors.update_group(group, **resolve_plan_groups(data))):
        flash_message(_("Location %(name)s saved.", name=group.display_name))
        return redirect_to(url_for(".index"))
    return form_page(form, group)


def resolve_plan_groups(data):
    if "plan_groups" in data:
        data["plan_groups"] = catalog.get_plan_groups(data["plan_groups"])
    return data


def form_page(form, group=None):
    return render(
        "admin/hypervisor_groups/form.html",
        "form",
        status=form.status,
        form=form,
        group=group,
        plan_group_options=session.execute(catalog.select_plan_group_names()).all(),
        backup_policies=session.execute(backup_policies.select_platform_names()).all(),
        jobs=session.scalars(backup_policies.select_jobs(group)).all() if group else [],
        switches=list_available_switches(),
        families=permissions_in_use.list_used_families(),
    )


def list_available_switches():
    """Return (name, label) of the switches whose family exists in this panel."""
    families = permissions_in_use.list_used_families()
    is_shown = lambda name: FAMILY_OF_SWITCH.get(name) is None or FAMILY_OF_SWITCH[name] in families  # noqa: E731
    return [(name, label) for name, label in GROUP_SWITCHES.items() if is_shown(name)]


@bp.post("/<group_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(group_id):
    group = hypervisors.get_group(group_id)
    hypervisors.delete_group(group)
    return build_action_response(_("Location %(name)s removed.", name=group.display_name), url_for(".index"))
