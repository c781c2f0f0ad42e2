"""Metrics of an instance: the data of the charts on its tab."""

from flask import request

from panel.core.db import session
from panel.core.task_kinds import task_label
from panel.models import Task
from panel.pages.shared.area import get_instance, route, scope_account
from panel.services import metrics, tasks
from panel.web import charts
from panel.web.translation import gettext

MAX_MARKERS = 50


@route("GET", "/<instance_id>/metrics/data", can="instances.view")
def show_metrics_data(instance_id):
    """Return the chart data as JSON, for the page's script."""
    instance = get_instance(instance_id)
    time_range = charts.parse_requested_range(request.args.get("range"), instance.created_at)
    series = charts.begin_at_creation(metrics.get_series(instance, time_range), instance.created_at)
    markers = list_task_markers(instance, series["since"])
    return charts.build_plot_data(series, {"cpu_percent": 100, "memory_used": instance.ram}, markers)


def list_task_markers(instance, since):
    """Return the newest tasks of the instance that began since then, oldest first, for its charts."""
    query = tasks.listing(scope_account(), resource_id=instance.id).where(Task.started_at >= since)
    return [
        {
            "at": int(task.started_at.timestamp()),
            "label": gettext(task_label(task.kind)),
            "failed": task.status == "failed",
        }
        for task in reversed(session.scalars(query.limit(MAX_MARKERS)).all())
    ]
