"""The first page: is everything well, what is being done, what happened last. Each person sees the parts they may."""

from flask import Blueprint

from panel.auth import permissions
from panel.auth.browser_session import may, page_can, viewer
from panel.core.db import session
from panel.models import Account, Member
from panel.pages.customer.activity import told
from panel.pages.customer.tasks import latest
from panel.services import dashboard, events, instances
from panel.web.htmx import render

bp = Blueprint("overview", __name__)
RECENT = 6


@bp.get("/")
@page_can(permissions.ANY_USER)
def show():
    found = machines() if may("instances.view") else {"seen": None, "work": None}
    return render("user/overview/show.html", "live", membership=membership(), others=others(), **found)


def machines():
    access = viewer()
    return {
        "seen": dashboard.machines(access),
        "recent": session.scalars(instances.listing(access).limit(RECENT)).unique().all(),
        "ailing": session.scalars(instances.ailing(access).limit(RECENT)).unique().all(),
        "work": latest(access),
        "lines": told(session.scalars(events.listing(access).limit(RECENT)).all()),
    }


def membership():
    """The membership of somebody who works on another account's resources, and that account; else None."""
    if viewer().member_id is None:
        return None
    return session.get(Member, viewer().member_id), session.get(Account, viewer().id)


OTHERS = {
    "project": ("Projects", "folder", "projects.index"),
    "ssh_key": ("SSH keys", "key", "ssh_keys.index"),
    "member": ("Members", "users", "team.index"),
}


def others():
    """Beside instances: what else there is, counted, with its page."""
    counts = dashboard.counts(viewer())
    return [(*words, counts[kind]) for kind, words in OTHERS.items() if kind in counts]
