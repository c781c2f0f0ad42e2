"""What an instance used: the figures behind the charts of its tab."""

from flask import request

from panel import charts
from panel.auth.browser import page_can
from panel.services import metrics
from panel.user.instances import bp
from panel.user.instances.show import mine


@bp.get("/<instance_id>/metrics/data")
@page_can("instances.view")
def figures(instance_id):
    """Asked for by the page's script."""
    instance = mine(instance_id)
    series = metrics.series(instance, charts.wanted(request.args.get("range")))
    return charts.lines(series, {"cpu_percent": 100, "memory_used": instance.ram})
