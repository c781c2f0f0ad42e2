"""The first page: state, open tasks, latest events. Each person sees only the permitted parts."""

from flask import Blueprint
from sqlalchemy.orm import selectinload

from panel.auth import permissions
from panel.auth.browser_session import (
    get_current_access,
    has_permission,
    permission_error,
    require_page_permission,
)
from panel.core import clock
from panel.core.db import literal_limit, session
from panel.models import Account, Instance, Member
from panel.pages.customer.checklist import build_checklist
from panel.pages.customer.last_visit import track_last_visit
from panel.pages.customer.tasks import list_recent_tasks
from panel.pages.shared.console_views import list_console_errors
from panel.services import dashboard, events, instances, metrics, settings, usage
from panel.services.instances.traffic import count_used_bytes
from panel.web import charts
from panel.web.activity_view import label_events
from panel.web.htmx import render
from panel.web.page_registry import NavigationEntry
from panel.web.translation import lazy_gettext

bp = Blueprint("overview", __name__)
NAVIGATION = NavigationEntry(
    "", "Overview", "overview.show", icon="layout-dashboard", permission=permissions.ANY_USER, position=10, shortcut="o"
)
MAX_RECENT, MAX_INSTANCES, MAX_EVENTS = 6, 8, 8


@bp.get("/")
@require_page_permission(permissions.ANY_USER)
def show():
    context = (
        build_instances_context()
        if has_permission("instances.view")
        else {"instance_summary": None, "recent_tasks": None}
    )
    return render(
        "customer/overview/show.html",
        "live",
        membership=find_membership(),
        checklist=build_checklist(),
        resource_counts=count_resources(),
        **context,
    )


def build_instances_context():
    access = get_current_access()
    rows = instances.select_list_rows(access).options(selectinload(Instance.interfaces))
    recent = session.scalars(rows.limit(literal_limit(MAX_INSTANCES))).all()
    return {
        "instance_summary": dashboard.summarize_instances(access),
        "recent": recent,
        "loads": metrics.get_load_curves(recent),
        "spark": charts.build_sparkline,
        "charts": charts,
        "used_traffic": count_used_bytes,
        "console_errors": lambda instance: list_console_errors(instance, permission_error("instances.console")),
        "instances_with_problems": session.scalars(
            instances.select_with_problems(access).limit(literal_limit(MAX_RECENT))
        ).all(),
        "recent_tasks": list_recent_tasks(access),
        "labeled_events": label_events(session.scalars(events.listing(access).limit(literal_limit(MAX_EVENTS))).all()),
        "last_visit": track_last_visit(),
        "costs": get_costs(access),
    }


def get_costs(access):
    """Return what the current month has cost so far and will cost; None without the permission or if nothing is
    charged."""
    if access.unbilled or not (settings.get().billing_enabled and has_permission("billing.view")):
        return None
    charge = usage.get_totals(usage.make_month_key(clock.now()), access)["charge"]
    amounts = {"charge": charge, "expected": usage.estimate_charge(charge, access)}
    return {name: amount.quantize(usage.CENT_QUANTUM) for name, amount in amounts.items()}


def find_membership():
    """Return (membership, account) when the person works in another account's team, else None."""
    if get_current_access().member_id is None:
        return None
    return session.get(Member, get_current_access().member_id), session.get(Account, get_current_access().id)


COUNTED_RESOURCES = {
    "project": (lazy_gettext("Projects"), "folder", "projects.index"),
    "ssh_key": (lazy_gettext("SSH keys"), "key", "ssh_keys.index"),
    "member": (lazy_gettext("Members"), "users", "team.index"),
}


def count_resources():
    """Return texts, page and count of the other kinds of resources."""
    counts = dashboard.count_resources(get_current_access(), COUNTED_RESOURCES)
    return [(*texts, counts[kind]) for kind, texts in COUNTED_RESOURCES.items() if kind in counts]
