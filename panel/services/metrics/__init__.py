"""Metrics of machines: workers write them, charts read them."""

from panel.services.metrics.export import export_account, export_instance
from panel.services.metrics.read import (
    TIME_RANGES,
    count_written_bytes,
    describe_agent,
    describe_now,
    find_fresh,
    find_latest,
    get_load_curves,
    get_series,
    get_sparklines,
)
from panel.services.metrics.ring_buffer import rollup, rollup_host, write, write_host

__all__ = [
    "TIME_RANGES",
    "count_written_bytes",
    "describe_agent",
    "describe_now",
    "export_account",
    "export_instance",
    "find_fresh",
    "find_latest",
    "get_load_curves",
    "get_series",
    "get_sparklines",
    "rollup",
    "rollup_host",
    "write",
    "write_host",
]
