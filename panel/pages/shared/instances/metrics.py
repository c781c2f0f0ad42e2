"""Metrics of an instance: the data of the charts on its tab."""

from flask import request

from panel.pages.shared.area import get_instance, route
from panel.services import metrics
from panel.web import charts


@route("GET", "/<instance_id>/metrics/data", can="instances.view")
def show_metrics_data(instance_id):
    """Return the chart data as JSON, for the page's script."""
    instance = get_instance(instance_id)
    series = metrics.get_series(instance, charts.parse_requested_range(request.args.get("range")))
    return charts.build_plot_data(series, {"cpu_percent": 100, "memory_used": instance.ram})
