"""Search over the platform: the operators' command palette, and the same as a page."""

from flask import Blueprint, request

from panel.auth import permissions
from panel.auth.browser_session import has_permission, require_page_permission
from panel.services import platform_search
from panel.web.htmx import render
from panel.web.page_registry import get_operator_pages
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_search", __name__, url_prefix="/admin/search")
MAX_RESULTS_PER_KIND = 6
SEARCH_HINT = lazy_gettext(
    "The search covers customers, instances (name, ID, IP address, host name, owner), micro VMs, volumes, backups, "
    "locations, hypervisors, tasks by ID, networks, images and plans."
)


@bp.get("")
@require_page_permission(permissions.ANY_ADMIN)
def show():
    query = request.args.get("q", "").strip()[:255]
    return render(
        "customer/search/show.html", "found", query=query, groups=list(build_search_groups(query)), searched=SEARCH_HINT
    )


def build_search_groups(query):
    for kind, rows in platform_search.search(query, MAX_RESULTS_PER_KIND, has_permission) if query else ():
        result_type = get_operator_pages().search_results[kind]
        actions = result_type.find_actions([row[0] for row in rows]) if result_type.find_actions else {}
        yield (
            _(result_type.label),
            [
                (
                    result_type.icon,
                    result_type.label_of(label),
                    details or "",
                    result_type.url(row_id),
                    actions.get(row_id),
                )
                for row_id, label, details in rows
            ],
        )
