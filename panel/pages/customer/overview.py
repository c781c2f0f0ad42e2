"""The first page: is everything well, what is being done, what happened last. Each person sees the parts they may."""

from flask import Blueprint

from panel.auth import permissions
from panel.auth.browser_session import current_access, has_permission, require_page_permission
from panel.core.db import session
from panel.models import Account, Member
from panel.pages.customer.activity import with_labels
from panel.pages.customer.tasks import recent_tasks
from panel.services import dashboard, events, instances
from panel.web.htmx import render

bp = Blueprint("overview", __name__)
MAX_RECENT = 6


@bp.get("/")
@require_page_permission(permissions.ANY_USER)
def show():
    found = instances_context() if has_permission("instances.view") else {"seen": None, "work": None}
    return render("user/overview/show.html", "live", membership=find_membership(), others=count_resources(), **found)


def instances_context():
    access = current_access()
    return {
        "seen": dashboard.summarize_instances(access),
        "recent": session.scalars(instances.listing(access).limit(MAX_RECENT)).unique().all(),
        "ailing": session.scalars(instances.with_problems(access).limit(MAX_RECENT)).unique().all(),
        "work": recent_tasks(access),
        "lines": with_labels(session.scalars(events.listing(access).limit(MAX_RECENT)).all()),
    }


def find_membership():
    """The membership of somebody who works on another account's resources, and that account; else None."""
    if current_access().member_id is None:
        return None
    return session.get(Member, current_access().member_id), session.get(Account, current_access().id)


COUNTED_RESOURCES = {
    "project": ("Projects", "folder", "projects.index"),
    "ssh_key": ("SSH keys", "key", "ssh_keys.index"),
    "member": ("Members", "users", "team.index"),
}


def count_resources():
    """Beside instances: what else there is, counted, with its page."""
    counts = dashboard.count_resources(current_access())
    return [(*words, counts[kind]) for kind, words in COUNTED_RESOURCES.items() if kind in counts]
