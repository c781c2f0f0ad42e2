"""Charts of metrics over time, for both areas: their definitions, formatted values, and plot data with gaps.

A page shows a chart as a legend, which needs no script, and as a plot that `static/metrics.js` draws from the
result of `build_plot_data`.
"""

from dataclasses import dataclass
from datetime import timedelta

from markupsafe import Markup

from panel.core import clock
from panel.core.formatting import format_number, format_size, localize_number
from panel.web.translation import get_request_language, gettext, lazy_gettext

FINEST_STEP_SECONDS = 15
"""Step of the finest series. One missing point at this step is not a gap, because a poll may have been late."""

MIN_PLOT_TIME = timedelta(minutes=5)
"""The least time that a chart shows."""

MAX_TABLE_ROWS = 30
"""The most rows in the table of all values."""


@dataclass(frozen=True)
class Chart:
    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    """The name and the label of each metric."""


METRIC_CHARTS = (
    Chart(lazy_gettext("CPU"), "percent", (("cpu_percent", lazy_gettext("Used")),)),
    Chart(lazy_gettext("Memory"), "mib", (("memory_used", lazy_gettext("Used")),)),
    Chart(
        lazy_gettext("Network"),
        "mbps",
        (("network_receive_mbps", lazy_gettext("Received")), ("network_transmit_mbps", lazy_gettext("Sent"))),
    ),
    Chart(
        lazy_gettext("Disk throughput"),
        "bytes",
        (("disk_read_bytes", lazy_gettext("Read")), ("disk_write_bytes", lazy_gettext("Written"))),
    ),
    Chart(
        lazy_gettext("Disk operations"),
        "operations",
        (("disk_read_iops", lazy_gettext("Read")), ("disk_write_iops", lazy_gettext("Written"))),
    ),
)
GUESTS, HOST = lazy_gettext("Instances and micro VMs"), lazy_gettext("Whole host")
HYPERVISOR_CHARTS = (
    Chart(lazy_gettext("CPU"), "percent", (("cpu_percent", GUESTS), ("host_cpu_percent", HOST))),
    Chart(lazy_gettext("Memory"), "mib", (("memory_used", GUESTS), ("host_memory_used", HOST))),
    *METRIC_CHARTS[2:],
)
SUBNET_CHARTS = METRIC_CHARTS[2:3]
STORAGE_CHARTS = (
    Chart(lazy_gettext("Disk space"), "mib", (("used_space", lazy_gettext("Used")),)),
    Chart(lazy_gettext("Allocated to disks"), "mib", (("allocated", lazy_gettext("Allocated")),)),
)
NO_VALUE = "–"  # noqa: RUF001
TIME_RANGES = (
    ("30m", lazy_gettext("30 min")),
    ("1h", lazy_gettext("1 h")),
    ("12h", lazy_gettext("12 h")),
    ("1d", lazy_gettext("1 day")),
    ("1w", lazy_gettext("1 week")),
)

SUBNET_TIME_RANGES = TIME_RANGES[2:]
STORAGE_TIME_RANGES = (
    *TIME_RANGES[-2:],
    ("30d", lazy_gettext("30 days")),
    ("1y", lazy_gettext("1 year")),
)


def format_value(unit, value):
    """Return the value with its unit as text; a dash for None."""
    if value is None:
        return NO_VALUE
    language = get_request_language()
    if unit == "percent":
        return localize_number(f"{value:.1f} %", language)
    if unit == "cores":
        count = localize_number(f"{value:.1f}", language) if value < 100 else format_number(value, language)
        return gettext("%(count)s cores", count=count)
    if unit == "mib":
        return format_size(value * 1024**2, language)
    if unit == "bytes":
        return f"{format_size(round(value), language)}/s"
    number = localize_number(f"{value:.2f}", language) if value < 10 else format_number(value, language)
    return f"{number} Mbit/s" if unit == "mbps" else f"{number}/s"


def list_charts(series):
    """Return the charts of the series, by default those of an instance."""
    return series.get("charts", METRIC_CHARTS)


def list_metrics(series):
    """Return (chart, name, label) of each metric of the series."""
    return [(chart, name, label) for chart in list_charts(series) for name, label in chart.lines]


def build_legend(series):
    """Return the formatted last, average and highest value of each metric."""
    points = series["points"]
    texts = {}
    for chart, name, _ in list_metrics(series):
        values = list_values(points, name)
        highest = max(list_values(points, f"{name}_max"), default=None)
        numbers = (values[-1], sum(values) / len(values), highest) if values else (None, None, None)
        texts[name] = [format_value(chart.unit, number) for number in numbers]
    return texts


def list_values(points, name):
    """Return the values of a metric, without those that were not measured."""
    return [point[name] for point in points if point[name] is not None]


def compute_average(points, name):
    values = list_values(points, name)
    return sum(values) / len(values) if values else None


def build_plot_data(series, axis_maxima, markers=()):
    """Return the data for the script: the Unix times of the points (`at`) and each metric's values at them. A gap is
    marked by one point with None. `maxima` has those of the axes that have one. `markers` are events with a time."""
    at, values = [], {name: [] for _, name, _ in list_metrics(series)}
    step = series["step"]
    max_distance = step * (2 if step == FINEST_STEP_SECONDS else 1)
    for point in series["points"]:
        second = int(point["at"].timestamp())
        if at and second - at[-1] > max_distance:
            at.append(at[-1] + step)
            for column in values.values():
                column.append(None)
        at.append(second)
        for name, column in values.items():
            column.append(point[name])
    return {
        "since": int(series["since"].timestamp()),
        "until": int(series["until"].timestamp()),
        "at": at,
        "values": values,
        "legend": build_legend(series),
        "maxima": axis_maxima,
        "markers": list(markers),
    }


def build_table_rows(series):
    """Return the same values as rows of a table, newest first: (time, formatted values). Long series are averaged over
    groups of points."""
    points = series["points"]
    width = -(-len(points) // MAX_TABLE_ROWS) or 1
    rows = []
    for first in range(0, len(points), width):
        group = points[first : first + width]
        rows.append(
            (
                group[0]["at"],
                [format_value(chart.unit, compute_average(group, name)) for chart, name, _ in list_metrics(series)],
            )
        )
    return rows[::-1]


def parse_requested_range(text, created_at=None):
    """Return the range if it is a valid one, else one hour, or less for what was created lately."""
    if text in dict(TIME_RANGES):
        return text
    return "30m" if created_at and clock.now() - created_at < timedelta(minutes=30) else "1h"


def begin_at_creation(series, created_at):
    """Return the series without the time before the creation of its resource; it keeps at least some minutes."""
    begin = min(created_at, series["until"] - MIN_PLOT_TIME)
    return series | {"since": max(series["since"], begin)}


def build_sparkline(curve, label):
    """Return a small SVG curve. `curve` has pairs (x, y), both from 0 to 1. Distances in x above 0.1 are gaps."""
    width, height, max_distance = 72, 20, 0.1
    runs = [[]]
    for position, value in curve:
        if runs[-1] and position - runs[-1][-1][0] > max_distance:
            runs.append([])
        runs[-1].append((position, value))
    path = " ".join(
        "M" + "L".join(f"{x * width:.1f} {(1 - y) * (height - 2) + 1:.1f}" for x, y in run)
        for run in runs
        if len(run) > 1
    )
    return Markup(
        '<svg class="sparkline" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<title>{}</title><path d="{}"></path></svg>'
    ).format(width, height, label, label, path)
