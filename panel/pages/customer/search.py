"""Search: the command palette, and the same as a page. Each person finds only permitted resources."""

from flask import Blueprint, request, url_for

from panel.auth import permissions
from panel.auth.browser_session import get_current_access, has_permission, require_page_permission
from panel.services import dashboard
from panel.web.htmx import render
from panel.web.page_registry import get_customer_pages
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("search", __name__)
MAX_RESULTS_PER_KIND = 5
SEARCH_HINT = lazy_gettext(
    "The search covers the names of everything that you may see, and instances by host name, ID and the start of an "
    "address, and tasks by ID."
)


@bp.get("/search")
@require_page_permission(permissions.ANY_USER)
def show():
    query = request.args.get("q", "").strip()[:255]
    return render(
        "customer/search/show.html", "found", query=query, groups=list(build_search_groups(query)), searched=SEARCH_HINT
    )


def build_search_groups(query):
    """Yield (title, rows) for each kind of result. A row is icon, name, detail, URL, actions and perhaps state. The
    layout adds matching pages of both areas."""
    if query:
        for kind, rows in dashboard.search(get_current_access(), query, MAX_RESULTS_PER_KIND):
            result_type = get_customer_pages().search_results[kind.name]
            actions = result_type.find_actions([row.id for row in rows]) if result_type.find_actions else {}
            yield _(result_type.label), [build_result(result_type, kind, row, actions.get(row.id)) for row in rows]
    yield _("Actions"), list(list_permitted_actions(query))


def build_result(result_type, kind, row, actions):
    """Return the row of a resource that was found."""
    name, detail = kind.describe(row)
    state = result_type.state_of(row) if result_type.state_of else None
    return result_type.icon, result_type.label_of(name), detail, result_type.url(row), actions, state


def list_permitted_actions(query):
    """Yield rows of the actions that the person may begin and whose label contains the text."""
    for action in get_customer_pages().palette_actions:
        label = _(action.label)
        if has_permission(action.permission) and query.lower() in label.lower():
            yield action.icon, label, "", url_for(action.endpoint), None
