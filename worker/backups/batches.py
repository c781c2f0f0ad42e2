"""Splitting many items into batches."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def split_batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
