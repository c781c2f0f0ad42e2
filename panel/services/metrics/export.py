"""Metrics of instances in Prometheus' text format 0.0.4 (OP-05), from the samples that workers stored.

The text is joined here: prometheus_client takes about twenty times as long for the samples of 10,000 instances.
"""

import gzip
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, Select, and_, func, select
from sqlalchemy.orm import aliased

from panel.core import clock, context
from panel.core.db import session
from panel.models import GuestInfo, Hypervisor, Instance, InstanceMetric
from panel.services.access import Access
from panel.services.metrics.read import FRESH_SECONDS
from panel.services.metrics.ring_buffer import FINEST_STEP, compute_slot

ACCOUNT_CACHE_SECONDS = 10
"""How long the metrics of an account are sent unchanged."""

GUEST_REPORT_TTL = timedelta(minutes=15)
"""How long the file systems that a guest reported count; guests are asked every five minutes."""

MAX_CACHED_EXPORTS = 16
"""How many accounts' metrics a process keeps. Those of 10,000 instances are 9 MB."""

GZIP_LEVEL = 1
GZIP_CHECKSUM_BYTES = 8
"""The end of gzip's format: checksum and length of the text."""


class Family(NamedTuple):
    name: str
    help: str
    get_value: Callable[[Row], float | None]
    """Returns the value of one instance, or None when there is none."""


def get_disk_percent(row: Row) -> float | None:
    """Return how full the guest's file systems are together, as its agent reported them."""
    filesystems = row.filesystems or ()
    size = sum(filesystem["size"] for filesystem in filesystems)
    return 100 * sum(filesystem["used"] for filesystem in filesystems) / size if size else None


INSTANCE_FAMILIES = (
    Family("hv_instance_cpu_percent", "CPU usage in percent of all cores.", lambda row: row.cpu_percent),
    Family(
        "hv_instance_memory_percent",
        "Used memory in percent.",
        lambda row: min(100.0, 100 * row.memory_used / max(1, row.ram)),
    ),
    Family(
        "hv_instance_disk_percent",
        "Used space of the file systems that the guest reports, in percent.",
        get_disk_percent,
    ),
    Family(
        "hv_instance_network_receive_mbps",
        "Download of the instance in megabits per second.",
        lambda row: row.network_receive_mbps,
    ),
    Family(
        "hv_instance_network_transmit_mbps",
        "Upload of the instance in megabits per second.",
        lambda row: row.network_transmit_mbps,
    ),
    Family("hv_instance_disk_read_iops", "Read operations of its disks per second.", lambda row: row.disk_read_iops),
    Family("hv_instance_disk_write_iops", "Write operations of its disks per second.", lambda row: row.disk_write_iops),
)
"""The families that only instances with a recent sample have."""

UP_FAMILY = Family("hv_resource_up", "Whether the resource was measured within the last minute.", lambda row: row.is_up)
SAMPLE_COLUMNS = (
    "cpu_percent",
    "memory_used",
    "network_receive_mbps",
    "network_transmit_mbps",
    "disk_read_iops",
    "disk_write_iops",
)

columns = InstanceMetric.__table__.c
LABEL_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class AccountExport:
    """The metrics of an account, compressed by gzip and, once somebody needs it, as plain text."""

    def __init__(self, compressed: bytes) -> None:
        self.compressed = compressed

    @cached_property
    def plain(self) -> bytes:
        return gzip.decompress(self.compressed)

    @cached_property
    def digest(self) -> str:
        return sha256(self.compressed).hexdigest()


def export_account(access: Access) -> AccountExport:
    """Return the metrics of all instances that the person may see.

    Redis stores them for ten seconds, so that all web processes answer the same. A process keeps its last ones and only
    asks Redis for the checksum. Without Redis nothing is stored.
    """
    key = f"panel:metrics-export:{make_view_key(access)}"
    checksum = call_redis(lambda client: client.getrange(key, -GZIP_CHECKSUM_BYTES, -1))
    cached = context.current().cached_exports.get(key)
    if checksum and cached and cached.compressed.endswith(checksum):
        return cached
    compressed = checksum and call_redis(lambda client: client.get(key))
    return keep(key, AccountExport(compressed or build_and_store(key, access)))


def build_and_store(key: str, access: Access) -> bytes:
    """Return the compressed metrics. If another process stored its own at the same time, return these."""
    compressed = gzip.compress(render(list_rows(access)).encode(), GZIP_LEVEL, mtime=0)
    is_first = call_redis(lambda client: client.set(key, compressed, ex=ACCOUNT_CACHE_SECONDS, nx=True))
    return compressed if is_first else call_redis(lambda client: client.get(key)) or compressed


def keep(key: str, export: AccountExport) -> AccountExport:
    exports = context.current().cached_exports
    if len(exports) >= MAX_CACHED_EXPORTS:
        exports.clear()
    exports[key] = export
    return export


def export_instance(instance: Instance) -> str:
    """Return the metrics of one instance as they are now."""
    return render(session.execute(select_newest().where(Instance.id == instance.id)))


def call_redis(operation: Callable[[Any], Any]) -> Any:
    """Return the result of the call, or None while Redis is unavailable."""
    return context.current().rate_limits.try_redis(lambda redis: operation(redis.client))


def make_view_key(access: Access) -> str:
    """Return a key that only those share who may see the same instances.

    That of a member with chosen resources or projects changes with these, so nothing is shown after its removal.
    """
    if not access.has_permission("instances.view"):
        return "none"
    if access.reach == "all":
        return access.id
    visible_ids = session.scalars(select(Instance.id).where(access.visible_rows(Instance)).order_by(Instance.id))
    return sha256(" ".join([access.id, *visible_ids]).encode()).hexdigest()


def list_rows(access: Access) -> Iterable[Row]:
    if not access.has_permission("instances.view"):
        return []
    return session.execute(select_newest().where(access.visible_rows(Instance)).order_by(Instance.id)).all()


def select_newest() -> Select[Any]:
    """Select instances, each with its newest sample of the last minute and its guest's report, where there are any.

    `is_up`: it runs, its hypervisor answers, and there is a sample.
    """
    now = clock.now().timestamp()
    slots = [compute_slot(FINEST_STEP, now - age)["slot"] for age in range(0, FRESH_SECONDS + 1, FINEST_STEP)]
    newer = aliased(InstanceMetric)
    newest_at = (
        select(func.max(newer.at))
        .where(
            newer.instance_id == Instance.id,
            newer.step == FINEST_STEP,
            newer.slot.in_(slots),
            newer.at > now - FRESH_SECONDS,
            newer.at <= now,
        )
        .correlate(Instance)
        .scalar_subquery()
    )
    is_newest = and_(
        columns.instance_id == Instance.id,
        columns.step == FINEST_STEP,
        columns.slot.in_(slots),
        columns.at == newest_at,
    )
    return (
        select(
            Instance.id,
            Instance.display_name,
            Instance.ram,
            and_(Instance.power == "on", Hypervisor.status == "up", columns.at.is_not(None)).label("is_up"),
            *(columns[name] for name in SAMPLE_COLUMNS),
            GuestInfo.filesystems,
        )
        .select_from(Instance)
        .join(Hypervisor, Hypervisor.id == Instance.hypervisor_id)
        .outerjoin(InstanceMetric, is_newest)
        .outerjoin(GuestInfo, is_current_report())
    )


def is_current_report() -> ColumnElement[bool]:
    """Return the condition that joins an instance with the report of its guest, if it is of this start and not old."""
    return and_(
        GuestInfo.instance_id == Instance.id,
        GuestInfo.at >= clock.now() - GUEST_REPORT_TTL,
        (GuestInfo.at >= Instance.power_reported_at) | Instance.power_reported_at.is_(None),
    )


def render(rows: Iterable[Row]) -> str:
    """Return the text of these instances. Each family has its HELP and TYPE once."""
    labelled_rows = [(f'{{id="{row.id}",name="{escape_label(row.display_name)}"}}', row) for row in rows]
    measured_rows = [(labels, row) for labels, row in labelled_rows if row.is_up]
    lines: list[str] = []
    for family in INSTANCE_FAMILIES:
        lines += render_family(family, measured_rows)
    lines += render_family(UP_FAMILY, labelled_rows)
    return "\n".join([*lines, ""])


def render_family(family: Family, labelled_rows: Iterable[tuple[str, Row]]) -> Iterator[str]:
    name, get_value = family.name, family.get_value
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} gauge"
    for labels, row in labelled_rows:
        value = get_value(row)
        if value is not None:
            yield f"{name}{labels} {value:.6g}"


def escape_label(value: str) -> str:
    return value.translate(LABEL_ESCAPES)
