"""Parts of the operators' overview: the line of health, the curves of the platform, and what is new."""

from dataclasses import dataclass

from flask import url_for

from panel.auth.browser_session import has_permission
from panel.core import clock
from panel.core.db import session
from panel.core.formatting import format_duration
from panel.services import accounts, audit, settings, usage
from panel.services.metrics.hosts import list_platform_curves
from panel.web.area_charts import MAX_BANDS, AreaChart, build_bands
from panel.web.charts import format_value
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext, ngettext

CURVES = (
    ("cores", lazy_gettext("CPU"), "cores"),
    ("memory", lazy_gettext("Memory"), "mib"),
    ("network", lazy_gettext("Network"), "mbps"),
    ("storage", lazy_gettext("Storage I/O"), "bytes"),
)
"""Name of the values, title and unit."""
MAX_NEWEST = 6


@dataclass
class HealthItem:
    title: str
    text: str
    url: str
    color: str


def build_health_items(health):
    """Return the figures of the platform's health, each with a link to what is behind it."""
    return [
        build_hypervisor_item(health.hypervisors),
        build_queue_item(health),
        HealthItem(
            _("Faults in the last hour"),
            ngettext("%(num)s failed task", "%(num)s failed tasks", health.faults) if health.faults else _("None"),
            url_for("admin_tasks.index", status="failed"),
            "red" if health.faults else "green",
        ),
        build_delivery_item(health),
        HealthItem(
            _("Missing backups"),
            ngettext("%(num)s instance", "%(num)s instances", health.missing_backups)
            if health.missing_backups
            else _("None"),
            url_for("admin_instance_backups.missing", gap="overdue"),
            "orange" if health.missing_backups else "green",
        ),
    ]


def build_hypervisor_item(counts):
    total, up = counts.total(), counts["up"]
    text = _("%(up)s of %(total)s up", up=up, total=total) if total else _("None yet")
    if counts["stale"]:
        text = _("%(up)s of %(total)s up, %(stale)s out of date", up=up, total=total, stale=counts["stale"])
    color = "red" if counts["down"] else "secondary" if not total else "green" if up == total else "orange"
    return HealthItem(_("Hypervisors"), text, url_for("admin_hypervisors.index"), color)


def build_queue_item(health):
    text = _("No task waits")
    if health.oldest_queued_at:
        age = format_duration((clock.now() - health.oldest_queued_at).total_seconds())
        text = _("Oldest waits for %(time)s", time=age)
    url = url_for("admin_tasks.index", status="open")
    return HealthItem(_("Task queue"), text, url, "orange" if health.is_queue_slow else "green")


def build_delivery_item(health):
    url, text = url_for("admin_accounts.index"), _("On time")
    if health.late_deliveries:
        url = url_for("admin_accounts.show", account_id=health.slow_account_id)
        text = ngettext("%(num)s late", "%(num)s late", health.late_deliveries)
    return HealthItem(_("Webhook deliveries"), text, url, "orange" if health.late_deliveries else "green")


def build_curves(capacities):
    """Return the legend and the charts of the last 24 hours; without samples, no charts."""
    curves = list_platform_curves()
    groups = [capacity.group for capacity in capacities if capacity.group.id in curves.points]
    points = [curves.points[group.id] for group in groups]
    names = [group.display_name for group in groups]
    if len(names) > MAX_BANDS:
        names = [*names[: MAX_BANDS - 1], _("Other locations")]
    charts = [
        AreaChart(title, unit, build_bands(points, curves.since, curves.until, name))
        for name, title, unit in CURVES
        if points
    ]
    totals = {
        "cores": sum(capacity.host_cores for capacity in capacities),
        "memory": sum(capacity.host_ram for capacity in capacities),
    }
    capacity_texts = [
        _("of %(total)s", total=format_value(unit, totals[name])) if totals.get(name) else None
        for name, _title, unit in CURVES
    ]
    return {"names": names if len(names) > 1 else [], "charts": list(zip(charts, capacity_texts, strict=False))}


def list_newest_entries():
    """Return the newest entries of the audit log; None without the permission."""
    if not has_permission("admin:audit:read"):
        return None
    return session.scalars(audit.listing().limit(MAX_NEWEST)).all()


def get_revenue():
    """Return what the current month has charged to customers so far; None while billing is off or without the
    permission. One query."""
    if not (settings.get().billing_enabled and has_permission("admin:billing:read")):
        return None
    return usage.get_totals(usage.make_month_key(clock.now()))["charge"]


def list_new_customers():
    """Return the customers that signed up last; None without the permission."""
    if not has_permission("admin:accounts:read"):
        return None
    return session.scalars(accounts.select_new_customers().limit(MAX_NEWEST)).all()
