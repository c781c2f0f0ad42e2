"""Search: the command palette, and the same as a page. Each person finds only permitted resources."""

from flask import Blueprint, request, url_for

from panel.auth import permissions
from panel.auth.browser_session import current_access, has_permission, require_page_permission
from panel.services import dashboard
from panel.web.htmx import render

bp = Blueprint("search", __name__)
MAX_RESULTS_PER_KIND = 8
SEARCH_HINT = "Names, host names and the start of an address are searched."
RESULT_KINDS = {
    "instance": ("Instances", "server", lambda row: url_for("instances.show", instance_id=row.id)),
    "project": ("Projects", "folder", lambda row: url_for("projects.show", project_id=row.id)),
    "ssh_key": ("SSH keys", "key", lambda row: url_for("ssh_keys.index")),
    "member": ("Team", "users", lambda row: url_for("team.member", member_id=row.id)),
}
ACTIONS = (
    ("Create instance", "plus", "instances.new", "instances.create"),
    ("Add project", "folder", "projects.new", "projects.manage"),
    ("Add SSH key", "key", "ssh_keys.new", "ssh_keys.manage"),
    ("Generate SSH key", "wand", "ssh_keys.new_pair", "ssh_keys.manage"),
    ("Add user script", "file-text", "user_scripts.new", "user_scripts.manage"),
    ("Add certificate", "certificate", "certificates.new", "certificates.manage"),
    ("Invite member", "user-plus", "team.new", "team.manage"),
)


@bp.get("/search")
@require_page_permission(permissions.ANY_USER)
def show():
    query = request.args.get("q", "").strip()[:255]
    return render(
        "customer/search/show.html", "found", words=query, groups=list(search_groups(query)), searched=SEARCH_HINT
    )


def search_groups(query):
    """Yield (title, rows) for each kind of result. A row is icon, name, detail, URL. The layout adds matching pages of
    both areas."""
    if query:
        for kind, rows in dashboard.search(current_access(), query, MAX_RESULTS_PER_KIND):
            title, symbol, address = RESULT_KINDS[kind]
            yield title, [(symbol, *dashboard.describe_row(row), address(row)) for row in rows]
    yield "Actions", [row for row in permitted_actions(ACTIONS) if query.lower() in row[1].lower()]


def permitted_actions(actions):
    for label, symbol, endpoint, permission in actions:
        if has_permission(permission):
            yield symbol, label, "", url_for(endpoint)
