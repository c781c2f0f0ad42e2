"""Formatting of sizes, traffic, money and numbers."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from panel.core import formatting


@pytest.mark.parametrize(
    ("count", "size", "transfer"),
    [
        (0, "0 B", "0 B"),
        (999, "999 B", "999 B"),
        (1000, "1000 B", "1 kB"),
        (1536, "1.5 KiB", "1.5 kB"),
        (420 * 10**9, "391.2 GiB", "420 GB"),
        (5 * 10**15, "4547.5 TiB", "5000 TB"),
    ],
)
def test_disk_size_is_binary_and_traffic_is_decimal(count, size, transfer):
    """Disk sizes have binary units. Traffic has decimal units, because an allowance of 1 TB is 10^12 bytes."""
    assert (formatting.format_size(count), formatting.format_transfer(count)) == (size, transfer)


@pytest.mark.parametrize(("gigabytes", "text"), [(0, "unlimited"), (500, "500 GB"), (2500, "2.5 TB")])
def test_traffic_allowance_has_units_of_traffic_usage(gigabytes, text):
    assert formatting.format_traffic(gigabytes) == text
    assert not gigabytes or formatting.format_transfer(gigabytes * 10**9) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "< 1 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (86400, "24 h"),
        (86459, "24 h"),
    ],
)
def test_duration_has_two_units_at_most_and_none_that_is_0(seconds, text):
    assert formatting.format_duration(seconds) == text


def test_numbers_have_separators_of_the_language():
    assert formatting.format_size(1536, "de") == "1,5 KiB"
    assert formatting.format_traffic(2500, "de") == "2,5 TB"
    assert (formatting.format_rate(2.5), formatting.format_rate(2.5, "de")) == ("2.5 Mbit/s", "2,5 Mbit/s")
    assert (formatting.format_count(1234567), formatting.format_count(1234567, "de")) == ("1,234,567", "1.234.567")


@pytest.mark.parametrize(
    ("amount", "currency", "english", "german"),
    [
        (2, "EUR", "€2.00", "2,00\N{NO-BREAK SPACE}€"),
        (Decimal("-1234.5678"), "EUR", "-€1,234.5678", "-1.234,5678\N{NO-BREAK SPACE}€"),
        (0.5, "CHF", "0.50 CHF", "0,50\N{NO-BREAK SPACE}CHF"),
    ],
)
def test_money_is_written_as_in_the_language(amount, currency, english, german):
    assert formatting.format_money(amount, currency) == english
    assert formatting.format_money(amount, currency, "de") == german


@pytest.mark.parametrize(
    ("text", "language", "number"),
    [
        ("9,90", "de", "9.90"),
        ("9.90", "de", "9.90"),
        ("9,90", "en", "9,90"),
        ("-1", "de", "-1"),
        ("1,2,3", "de", "1.2.3"),
    ],
)
def test_typed_numbers_may_have_the_decimal_separator_of_the_language(text, language, number):
    assert formatting.read_number(text, language) == number


def test_days_are_in_the_language():
    moment = datetime(2026, 12, 3, tzinfo=UTC)
    assert (formatting.format_day(moment), formatting.format_day(moment, "de")) == (
        "3 December 2026",
        "3. Dezember 2026",
    )
    assert formatting.format_day(moment, "de", has_year=False) == "3. Dezember"
