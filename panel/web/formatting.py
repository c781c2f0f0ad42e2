"""How times, sizes and money are written for people."""

from datetime import UTC
from zoneinfo import ZoneInfo

from markupsafe import Markup

from panel.core import clock

SIGNS = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "INR": "₹"}
UNITS = ((86400 * 365, "y"), (86400 * 30, "mo"), (86400, "d"), (3600, "h"), (60, "min"))


def ago(moment, zone="UTC", *, now=None):
    """A relative time that shows the exact one on hover. The page's script keeps it current."""
    if moment is None:
        return Markup('<span class="text-secondary">never</span>')
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
        moment.astimezone(UTC).isoformat(timespec="seconds"), exact(moment, zone), since(moment, now or clock.now())
    )


def since(moment, now):
    passed = int((now - moment).total_seconds())
    ahead, passed = passed < -5, abs(passed)
    for size, unit in UNITS:
        if passed >= size:
            return f"in {passed // size} {unit}" if ahead else f"{passed // size} {unit} ago"
    return "in a moment" if ahead else "just now"


def exact(moment, zone="UTC"):
    """The moment as the wall clock of the time zone shows it."""
    return f"{local(moment, zone):%a %d %b %Y, %H:%M:%S %Z}"


def hour(moment, zone="UTC"):
    """The time of day, with the date when it was not today."""
    there = local(moment, zone)
    today = local(clock.now(), zone).date() == there.date()
    return f"{there:%H:%M}" if today else f"{there:%d %b %Y, %H:%M}"


def second(moment, zone="UTC"):
    """The time of day to the second, for the lines of a log."""
    return f"{local(moment, zone):%H:%M:%S}"


def local(moment, zone):
    return moment.astimezone(ZoneInfo(zone))


def duration(seconds):
    seconds = int(seconds)
    if seconds < 1:
        return "under 1 s"
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def size(count):
    """Bytes in the largest binary unit that leaves a number of at least 1."""
    return scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def transfer(count):
    """Bytes that went over the network, in the decimal units in which traffic is sold."""
    return scaled(count, 1000, ("B", "kB", "MB", "GB", "TB"))


def scaled(count, step, units):
    for unit in units[:-1]:
        if count < step:
            return f"{trimmed(count)} {unit}"
        count /= step
    return f"{trimmed(count)} {units[-1]}"


def mib(count):
    return size(count * 1024**2)


def gib(count):
    return size(count * 1024**3)


def rate(mbps):
    if not mbps:
        return "unlimited"
    return f"{trimmed(mbps / 1000)} Gbit/s" if mbps >= 1000 else f"{mbps} Mbit/s"


def traffic(gigabytes):
    if not gigabytes:
        return "unlimited"
    return f"{trimmed(gigabytes / 1000)} TB" if gigabytes >= 1000 else f"{gigabytes} GB"


def money(amount, currency):
    """Two decimals, or as many as a small price needs."""
    text = f"{abs(amount):,.4f}".rstrip("0")
    whole, _, part = text.partition(".")
    sign, minus = SIGNS.get(currency), "-" if amount < 0 else ""
    return f"{minus}{sign}{whole}.{part:0<2}" if sign else f"{minus}{whole}.{part:0<2} {currency}"


def trimmed(number):
    return f"{number:.1f}".removesuffix(".0")


def plural(count, one, many=None):
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def worded(words):
    """Words of the wire and how people read them, as the options of a choice."""
    return [(word, word.replace("_", " ").capitalize()) for word in words]
