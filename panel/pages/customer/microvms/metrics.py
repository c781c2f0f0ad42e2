"""Metrics of a micro VM: charts of what its guest reported."""

from datetime import timedelta

from flask import request

from panel.auth.browser_session import require_page_permission
from panel.core import clock
from panel.pages.customer.microvms import VIEW_PERMISSION, bp, get_own
from panel.services.microvms import guest_reports
from panel.web import charts
from panel.web.htmx import render
from panel.web.translation import lazy_gettext

CHARTS = (
    charts.Chart(lazy_gettext("CPU"), "percent", (("cpu_percent", lazy_gettext("Used")),)),
    charts.Chart(
        lazy_gettext("Memory"),
        "mib",
        (("memory_used", lazy_gettext("Used")), ("memory_cache", lazy_gettext("Cached files"))),
    ),
    charts.Chart(lazy_gettext("Disk space"), "mib", (("disk_used", lazy_gettext("Used")),)),
)
SECONDS_BY_RANGE = {"30m": 1800, "1h": guest_reports.SAMPLE_RETENTION_SECONDS}
BYTES_PER_MIB = 1024**2


@bp.get("/<microvm_id>/metrics")
@require_page_permission(VIEW_PERMISSION)
def show_metrics(microvm_id):
    microvm = get_own(microvm_id)
    return render("customer/microvms/metrics.html", microvm=microvm, series=build_series(microvm), charts=charts)


@bp.get("/<microvm_id>/metrics/data")
@require_page_permission(VIEW_PERMISSION)
def show_metrics_data(microvm_id):
    """Return the chart data as JSON, for the page's script."""
    microvm = get_own(microvm_id)
    maxima = {"cpu_percent": 100, "memory_used": microvm.memory_mb, "disk_used": microvm.disk_gb * 1024}
    return charts.build_plot_data(build_series(microvm), maxima)


def build_series(microvm):
    """Return the guest's samples of the requested time range, as the charts expect them."""
    time_range = request.args.get("range") if request.args.get("range") in SECONDS_BY_RANGE else "1h"
    until = clock.now()
    since = until - timedelta(seconds=SECONDS_BY_RANGE[time_range])
    points = []
    for sample in guest_reports.list_samples(microvm, since.timestamp(), until.timestamp()):
        values = {"cpu_percent": sample.cpu_percent}
        values |= {name: getattr(sample, name) / BYTES_PER_MIB for name in ("memory_used", "memory_cache", "disk_used")}
        points.append({"at": sample.measured_at, **values, **{f"{name}_max": value for name, value in values.items()}})
    return {
        "time_range": time_range,
        "time_ranges": [entry for entry in charts.TIME_RANGES if entry[0] in SECONDS_BY_RANGE],
        "charts": CHARTS,
        "step": charts.FINEST_STEP_SECONDS,
        "since": since,
        "until": until,
        "points": points,
    }
