"""What an instance used: the figures behind the charts of its tab."""

from flask import request

from panel.pages.shared.area import found, page
from panel.services import metrics
from panel.web import charts


@page("GET", "/<instance_id>/metrics/data", can="instances.view")
def figures(instance_id):
    """Asked for by the page's script."""
    instance = found(instance_id)
    series = metrics.series(instance, charts.wanted(request.args.get("range")))
    return charts.lines(series, {"cpu_percent": 100, "memory_used": instance.ram})
