"""What anybody's instance used, on a page of its own."""

from flask import Blueprint, request

from panel import charts
from panel.auth.browser import page_can
from panel.htmx import render
from panel.services import instances, metrics

bp = Blueprint("admin_instance_metrics", __name__, url_prefix="/admin/instances")
READ = "admin:instances:read"


@bp.get("/<instance_id>/metrics")
@page_can(READ)
def show(instance_id):
    instance = instances.get(instance_id)
    asked = charts.wanted(request.args.get("range"))
    found = {"series": metrics.series(instance, asked), "now": metrics.now_of(instance)}
    return render("admin/instances/metrics.html", instance=instance, charts=charts, **found)


@bp.get("/<instance_id>/metrics/data")
@page_can(READ)
def figures(instance_id):
    """Asked for by the page's script."""
    instance = instances.get(instance_id)
    series = metrics.series(instance, charts.wanted(request.args.get("range")))
    return charts.lines(series, {"cpu_percent": 100, "memory_used": instance.ram})
