"""Formatting of sizes and traffic."""

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
