"""Times, sizes, numbers and money as text for people, in English unless another language is given."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from zoneinfo import ZoneInfo

from babel import Locale
from babel.dates import format_date as babel_format_date
from babel.dates import format_skeleton

from panel.core import clock
from panel.core.languages import DEFAULT_LANGUAGE
from panel.core.messages import message

CURRENCY_SYMBOLS = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "INR": "₹"}
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"


def format_datetime(moment: datetime, zone: str = "UTC", language: str = DEFAULT_LANGUAGE) -> str:
    """Return date and time in the time zone."""
    return f"{format_date(moment, zone, language)}, {to_local_time(moment, zone):%H:%M:%S %Z}"


def format_date(moment: datetime, zone: str = "UTC", language: str = DEFAULT_LANGUAGE) -> str:
    local = to_local_time(moment, zone)
    return f"{local:%a %d %b %Y}" if language == DEFAULT_LANGUAGE else format_skeleton("yMMMEd", local, locale=language)


def format_day(moment: datetime, language: str = DEFAULT_LANGUAGE, *, has_year: bool = True) -> str:
    """Return day and month in words, in UTC."""
    if language == DEFAULT_LANGUAGE:
        return f"{moment:%-d %B %Y}" if has_year else f"{moment:%-d %B}"
    return (
        babel_format_date(moment, "long", language) if has_year else format_skeleton("MMMMd", moment, locale=language)
    )


def format_time(moment: datetime, zone: str = "UTC", language: str = DEFAULT_LANGUAGE) -> str:
    """Return the time of day in the time zone, with the date when it is not today."""
    local = to_local_time(moment, zone)
    if to_local_time(clock.now(), zone).date() == local.date():
        return f"{local:%H:%M}"
    date = f"{local:%d %b %Y}" if language == DEFAULT_LANGUAGE else format_skeleton("yMMMd", local, locale=language)
    return f"{date}, {local:%H:%M}"


def format_time_seconds(moment: datetime, zone: str = "UTC") -> str:
    """Return the time of day with seconds, for lines of a log."""
    return f"{to_local_time(moment, zone):%H:%M:%S}"


def to_local_time(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone))


def format_duration(seconds: float) -> str:
    """Return a duration in its largest unit and the next one, which is left out when it is 0: `5 min`, `1 h 1 min`."""
    seconds = int(seconds)
    if seconds < 1:
        return "< 1 s"
    if seconds < 60:
        return f"{seconds} s"
    large, small = (("min", 60), ("s", 1)) if seconds < 3600 else (("h", 3600), ("min", 60))
    parts = (seconds // large[1], large[0]), (seconds % large[1] // small[1], small[0])
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def format_size(count: float, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a number of bytes in the largest binary unit in which it is at least 1."""
    return scale_unit(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"), language)


def format_transfer(count: float, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a number of transferred bytes in decimal units, because traffic is sold in them."""
    return scale_unit(count, 1000, ("B", "kB", "MB", "GB", "TB"), language)


def scale_unit(count: float, step: int, units: Sequence[str], language: str = DEFAULT_LANGUAGE) -> str:
    for unit in units[:-1]:
        if count < step:
            return f"{format_number(count, language)} {unit}"
        count /= step
    return f"{format_number(count, language)} {units[-1]}"


def format_mib(count: float, language: str = DEFAULT_LANGUAGE) -> str:
    return format_size(count * 1024**2, language)


def format_gib(count: float, language: str = DEFAULT_LANGUAGE) -> str:
    return format_size(count * 1024**3, language)


def format_rate(mbps: float | None, language: str = DEFAULT_LANGUAGE) -> str:
    if not mbps:
        return message("unlimited")
    if mbps >= 1000:
        return f"{format_number(mbps / 1000, language)} Gbit/s"
    return f"{localize_number(str(mbps), language)} Mbit/s"


def format_traffic(gigabytes: float | None, language: str = DEFAULT_LANGUAGE) -> str:
    if not gigabytes:
        return message("unlimited")
    if gigabytes >= 1000:
        return f"{format_number(gigabytes / 1000, language)} TB"
    return f"{localize_number(str(gigabytes), language)} GB"


def format_money(amount: Decimal | float, currency: str, language: str = DEFAULT_LANGUAGE) -> str:
    """Return the amount with the currency's symbol or code. It has two decimals, or up to four where needed."""
    text = f"{abs(amount):,.4f}".rstrip("0")
    integer, _, decimals = text.partition(".")
    sign, minus = CURRENCY_SYMBOLS.get(currency), "-" if amount < 0 else ""
    number = localize_number(f"{integer}.{decimals:0<2}", language)
    if is_currency_last(language):
        return f"{minus}{number}{NO_BREAK_SPACE}{sign or currency}"
    return f"{minus}{sign}{number}" if sign else f"{minus}{number} {currency}"


@cache
def is_currency_last(language: str) -> bool:
    """Return whether the language writes the currency's symbol behind the amount."""
    return not Locale.parse(language).currency_formats["standard"].pattern.startswith("¤")


def format_number(number: float, language: str = DEFAULT_LANGUAGE) -> str:
    return localize_number(f"{number:.1f}".removesuffix(".0"), language)


def format_count(count: int, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a whole number with separators between thousands."""
    return localize_number(f"{count:,}", language)


def format_plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def localize_number(text: str, language: str) -> str:
    """Return an English number, or a text that has no commas and points besides those of numbers, with the separators
    of the language."""
    return text if language == DEFAULT_LANGUAGE else text.translate(get_separators(language))


def read_number(text: str, language: str) -> str:
    """Return a number that somebody has typed with the decimal separator of the language as an English one."""
    decimal = "." if language == DEFAULT_LANGUAGE else get_separators(language)[ord(".")]
    return text if "." in text else text.replace(decimal, ".")


@cache
def get_separators(language: str) -> dict[int, str]:
    """Return the separators of a language, by those of English. Looked up once: babel's own formatting takes many times
    as long."""
    symbols = Locale.parse(language).number_symbols["latn"]
    return str.maketrans({",": symbols["group"], ".": symbols["decimal"]})
