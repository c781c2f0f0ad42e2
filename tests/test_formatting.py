"""How sizes and traffic are written for people."""

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
def test_traffic_is_counted_in_the_units_in_which_it_is_sold(count, size, transfer):
    """What is on a disk is binary; an allowance of 1 TB is 10^12 bytes, and so is what is used of it."""
    assert (formatting.size(count), formatting.transfer(count)) == (size, transfer)


@pytest.mark.parametrize(("gigabytes", "words"), [(0, "unlimited"), (500, "500 GB"), (2500, "2.5 TB")])
def test_an_allowance_reads_like_what_is_used_of_it(gigabytes, words):
    assert formatting.traffic(gigabytes) == words
    assert not gigabytes or formatting.transfer(gigabytes * 10**9) == words
