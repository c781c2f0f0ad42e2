"""Charts of figures over time, for both sides' pages: which there are, their numbers in words, and gaps that stay gaps.

A page shows a chart as its legend, which needs no script, and as a picture that `static/metrics.js` draws from
`plot_data`.
"""

from dataclasses import dataclass

from markupsafe import Markup

from panel.web.formatting import format_number, size

FINEST_STEP_SECONDS = 15
"""Seconds of the shortest spans. One that is missing between two that are there is no gap: a look came late."""

MAX_TABLE_ROWS = 30
"""How many lines the table of all figures has at most."""


@dataclass(frozen=True)
class Chart:
    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    """The name of each figure and what people call it."""


CHARTS = (
    Chart("Processor", "percent", (("cpu_percent", "Used"),)),
    Chart("Memory", "mib", (("memory_used", "Used"),)),
    Chart("Network", "mbps", (("network_receive_mbps", "Received"), ("network_transmit_mbps", "Sent"))),
    Chart("Disk throughput", "bytes", (("disk_read_bytes", "Read"), ("disk_write_bytes", "Written"))),
    Chart("Disk operations", "operations", (("disk_read_iops", "Read"), ("disk_write_iops", "Written"))),
)
CHARTED_FIGURES = [(chart, name, label) for chart in CHARTS for name, label in chart.lines]
NO_VALUE = "–"  # noqa: RUF001
RANGES = (("30m", "30 min"), ("1h", "1 h"), ("12h", "12 h"), ("1d", "1 day"), ("1w", "1 week"))


def format_value(unit, value):
    """The number for people; a dash for none."""
    if value is None:
        return NO_VALUE
    if unit == "percent":
        return f"{value:.1f} %"
    if unit == "mib":
        return size(value * 1024**2)
    if unit == "bytes":
        return f"{size(round(value))}/s"
    exact = f"{value:.2f}" if value < 10 else format_number(value)
    return f"{exact} Mbit/s" if unit == "mbps" else f"{exact}/s"


def legend(series):
    """For each figure the last, the average and the highest, in words."""
    points = series["points"]
    told = {}
    for chart, name, _ in CHARTED_FIGURES:
        values = [point[name] for point in points]
        highest = max((point[f"{name}_max"] for point in points), default=None)
        numbers = (values[-1], sum(values) / len(values), highest) if values else (None, None, None)
        told[name] = [format_value(chart.unit, number) for number in numbers]
    return told


def plot_data(series, axis_maxima):
    """What the script draws: the seconds of the points, and each figure's values at them. Between two points that have
    a gap between them lies one without a value. `most` is the highest value of an axis that has one."""
    at, values = [], {name: [] for _, name, _ in CHARTED_FIGURES}
    step = series["step"]
    bridged = step * (2 if step == FINEST_STEP_SECONDS else 1)
    for point in series["points"]:
        second = int(point["at"].timestamp())
        if at and second - at[-1] > bridged:
            at.append(at[-1] + step)
            for found in values.values():
                found.append(None)
        at.append(second)
        for name, found in values.items():
            found.append(point[name])
    return {
        "since": int(series["since"].timestamp()),
        "until": int(series["until"].timestamp()),
        "at": at,
        "values": values,
        "legend": legend(series),
        "most": axis_maxima,
    }


def table_rows(series):
    """The same figures as lines of a table, newest first: when, and each figure in words. Long series are averaged."""
    points = series["points"]
    width = -(-len(points) // MAX_TABLE_ROWS) or 1
    rows = []
    for first in range(0, len(points), width):
        some = points[first : first + width]
        rows.append(
            (
                some[0]["at"],
                [
                    format_value(chart.unit, sum(point[name] for point in some) / len(some))
                    for chart, name, _ in CHARTED_FIGURES
                ],
            )
        )
    return rows[::-1]


def requested_range(text):
    """The range that the page was asked for; an hour when it is none."""
    return text if text in dict(RANGES) else "1h"


def sparkline(curve, label):
    """A small curve of a list: `curve` has pairs of a place and a height, both from 0 to 1. Gaps stay gaps."""
    width, height, far = 72, 20, 0.1
    runs = [[]]
    for place, share in curve:
        if runs[-1] and place - runs[-1][-1][0] > far:
            runs.append([])
        runs[-1].append((place, share))
    drawn = " ".join(
        "M" + "L".join(f"{x * width:.1f} {(1 - y) * (height - 2) + 1:.1f}" for x, y in run)
        for run in runs
        if len(run) > 1
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title><path d="{}"></path></svg>'
    ).format(width, height, label, label, drawn)
