"""Times relative to now, such as "3 h ago", as text and as HTML."""

from datetime import UTC

from markupsafe import Markup

from panel.core import clock
from panel.core.formatting import format_datetime
from panel.core.messages import message
from panel.web.translation import get_request_language, gettext, translate

RELATIVE_TIMES = (
    (86400 * 365, message("{count} y ago"), message("in {count} y")),
    (86400 * 30, message("{count} mo ago"), message("in {count} mo")),
    (86400, message("{count} d ago"), message("in {count} d")),
    (3600, message("{count} h ago"), message("in {count} h")),
    (60, message("{count} min ago"), message("in {count} min")),
    (0, message("just now"), message("in a moment")),
)
"""Seconds of each unit, and the texts for the past and the future."""
NOW_SECONDS = 5
"""Times that are this close ahead count as now, because the clocks of browser and panel differ."""


def build_timeago_tag(moment, zone="UTC", *, now=None):
    """Return a <time> tag with a relative time and the exact one as its title. The page's script keeps it current."""
    if moment is None:
        return Markup('<span class="text-secondary">{}</span>').format(gettext("never"))
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
        moment.astimezone(UTC).isoformat(timespec="seconds"),
        format_datetime(moment, zone, get_request_language()),
        format_relative_time(moment, now or clock.now()),
    )


def format_relative_time(moment, now):
    passed = int((now - moment).total_seconds())
    seconds, past, future = next(unit for unit in RELATIVE_TIMES if abs(passed) >= unit[0])
    text = translate(future if passed < -NOW_SECONDS else past)
    return text.replace("{count}", str(abs(passed) // seconds)) if seconds else text


def list_script_texts():
    """Return the texts from which the page's script makes relative times."""
    return [
        {"seconds": seconds, "past": translate(past), "future": translate(future)}
        for seconds, past, future in RELATIVE_TIMES
    ]
