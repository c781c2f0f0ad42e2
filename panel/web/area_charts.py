"""Small curves that the server draws as SVG, so that a page needs no script for them: areas, stacked by group."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from panel.web.charts import format_value

WIDTH, HEIGHT = 300, 64
MAX_BUCKETS = 96
"""Each curve has at most this many points; more are averaged."""
MAX_BANDS = 5
"""Groups with a color of their own; the last band has the sum of all others."""


@dataclass
class AreaChart:
    """`bands` are the groups from the bottom up, each with the values of the buckets, which are None in gaps."""

    title: str
    unit: str
    bands: Sequence[Sequence[float | None]]
    maximum: float | None = None
    """The top of the axis; by default the highest value."""
    latest: float | None = None
    """The newest sample, where one is known that is finer than the buckets."""

    @property
    def totals(self):
        return [None if values[0] is None else sum(values) for values in zip(*self.bands, strict=True)]

    @property
    def now(self):
        """The last value, or None if nothing was measured in the last two buckets."""
        if self.latest is not None:
            return self.latest
        return next((total for total in reversed(self.totals[-2:]) if total is not None), None)

    @property
    def highest(self):
        return max((total for total in self.totals if total is not None), default=None)

    def format(self, value):
        return format_value(self.unit, value)

    def draw(self, label):
        """Return the SVG, which stretches to the width of its box."""
        top = self.maximum or self.highest or 1
        below, parts = [0.0] * len(self.totals), []
        for number, band in enumerate(self.bands, 1):
            above = [low + (value or 0) for low, value in zip(below, band, strict=True)]
            for first, last in find_runs(self.totals):
                upper, lower = (trace(edge, first, last, top) for edge in (above, below))
                parts.append(
                    Markup('<path class="band band-{}" d="M{}L{}Z"></path><path class="edge band-{}" d="M{}"></path>')
                    .format(number, "L".join(upper), "L".join(reversed(lower)), number, "L".join(upper))
                )  # fmt: skip
            below = above
        return Markup(
            '<svg class="area-chart" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
        ).format(WIDTH, HEIGHT, label, Markup("").join(parts))


def find_runs(totals):
    """Return the first and last bucket of each run without gaps that has at least two."""
    runs, first = [], None
    for number, total in enumerate([*totals, None]):
        if total is not None and first is None:
            first = number
        elif total is None and first is not None:
            if number - first > 1:
                runs.append((first, number - 1))
            first = None
    return runs


def trace(values, first, last, top):
    width = WIDTH / max(1, len(values) - 1)
    return [
        f"{number * width:.1f} {HEIGHT - 1 - (HEIGHT - 2) * min(1, values[number] / top):.1f}"
        for number in range(first, last + 1)
    ]


def build_buckets(points, since, until, name):
    """Return the averages of a value over the buckets between two seconds; None for buckets without points."""
    width = (until - since) / MAX_BUCKETS
    sums, counts = [0.0] * MAX_BUCKETS, [0] * MAX_BUCKETS
    for at, values in points.items():
        bucket = min(MAX_BUCKETS - 1, max(0, int((at - since) / width)))
        sums[bucket] += values[name]
        counts[bucket] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def build_bands(groups, since, until, name):
    """Return the buckets of each group. In a bucket in which any group has values, the others count as 0."""
    bands = [build_buckets(points, since, until, name) for points in groups]
    if len(bands) > MAX_BANDS:
        others = bands[MAX_BANDS - 1 :]
        sums = [
            sum(value or 0 for value in values) if any(value is not None for value in values) else None
            for values in zip(*others, strict=True)
        ]
        bands = [*bands[: MAX_BANDS - 1], sums]
    measured = [any(value is not None for value in values) for values in zip(*bands, strict=True)]
    return [
        [(value or 0.0) if is_measured else None for value, is_measured in zip(band, measured, strict=True)]
        for band in bands
    ]
