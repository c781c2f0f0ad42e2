"""Search over the platform: the operators' command palette, and the same as a page."""

from flask import Blueprint, request, url_for

from panel.auth import permissions
from panel.auth.browser_session import has_permission, require_page_permission
from panel.services import platform_search
from panel.web.htmx import render

bp = Blueprint("admin_search", __name__, url_prefix="/admin/search")
MAX_RESULTS_PER_KIND = 6
SEARCH_HINT = (
    "Customers, instances (name, id, IP address, host name, owner), hypervisors, tasks by id, "
    "subnets, addresses, images and plans are searched."
)
RESULT_KINDS = {
    "instance": ("Instances", "server", lambda row_id: url_for("admin_instances.show", instance_id=row_id)),
    "customer": ("Customers", "users", lambda row_id: url_for("admin_accounts.show", account_id=row_id)),
    "hypervisor": ("Hypervisors", "server-2", lambda row_id: url_for("admin_hypervisors.show", hypervisor_id=row_id)),
    "task": ("Tasks", "list-check", lambda row_id: url_for("admin_tasks.show", task_id=row_id)),
    "subnet": ("Subnets", "network", lambda row_id: url_for("admin_subnets.show", subnet_id=row_id)),
    "address": ("Addresses", "map-pin", lambda row_id: url_for("admin_subnets.show", subnet_id=row_id)),
    "image": ("Images", "copy", lambda row_id: url_for("admin_images.edit", image_id=row_id)),
    "plan": ("Plans", "package", lambda row_id: url_for("admin_plans.edit", plan_id=row_id)),
}
"""{kind of result: (title, icon, URL of a row)}"""


@bp.get("")
@require_page_permission(permissions.ANY_ADMIN)
def show():
    query = request.args.get("q", "").strip()[:255]
    return render(
        "customer/search/show.html", "found", words=query, groups=list(search_groups(query)), searched=SEARCH_HINT
    )


def search_groups(query):
    for kind, rows in platform_search.search(query, MAX_RESULTS_PER_KIND, has_permission) if query else ():
        title, symbol, address = RESULT_KINDS[kind]
        yield title, [(symbol, label, under or "", address(row_id)) for row_id, label, under in rows]
