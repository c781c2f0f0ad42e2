"""Figures of the platform for its operators' Prometheus.

A constant number of queries, none of which reads more rows than are open, were created recently, or exist for each
hypervisor.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from redis import RedisError
from sqlalchemy import case, func, select, text

from panel.core import clock
from panel.core.db import session
from panel.models import (
    Hypervisor,
    InstallationBackup,
    InstanceBackup,
    Storage,
    Task,
    WebhookDelivery,
    WebhookSubscription,
)
from panel.models.tasks import is_open
from panel.models.webhooks import OPEN_DELIVERY_SQL
from panel.services import hypervisors, workers

RECENT_SECONDS = 3600
"""Age of the oldest tasks and deliveries that are counted by their result."""

RECENT_BACKUP_SECONDS = 86_400


class GaugeFamily(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...]
    samples: Sequence[tuple[tuple[str, ...], float]]
    """The values of the labels and the value of each sample."""


def list_database_families() -> list[GaugeFamily]:
    """Return what rows tell. Nine queries."""
    return [
        *list_task_families(),
        *list_hypervisor_families(),
        *list_delivery_families(),
        *list_backup_families(),
    ]


def list_worker_families() -> list[GaugeFamily]:
    """Return whether Redis answers and how many workers are alive. Without Redis the latter is left out."""
    try:
        alive = workers.count_alive()
    except (RedisError, OSError):
        return [build_redis_family(0)]
    return [
        build_redis_family(1),
        GaugeFamily("panel_workers", "Worker processes that are alive.", (), [((), alive)]),
    ]


def build_redis_family(value: int) -> GaugeFamily:
    return GaugeFamily("panel_redis_up", "Whether Redis answers.", (), [((), value)])


def build_database_family(value: int) -> GaugeFamily:
    return GaugeFamily("panel_database_up", "Whether the database could be read.", (), [((), value)])


def list_task_families() -> list[GaugeFamily]:
    query = select(Task.kind, Task.status, func.count(), func.min(Task.queued_at)).where(is_open(Task.status))
    open_rows = session.execute(query.group_by(Task.kind, Task.status).order_by(Task.kind, Task.status)).all()
    oldest = min((queued_at for _, status, _, queued_at in open_rows if status == "queued"), default=None)
    return [
        GaugeFamily(
            "panel_tasks",
            "Open tasks by kind and status.",
            ("kind", "status"),
            [((kind, status), count) for kind, status, count, _ in open_rows],
        ),
        GaugeFamily(
            "panel_task_queue_age_seconds",
            "Age of the oldest task that waits for a worker; 0 if none does.",
            (),
            [((), compute_age(oldest))],
        ),
        GaugeFamily(
            "panel_recent_tasks",
            "Tasks that were created within the last hour, by kind and status.",
            ("kind", "status"),
            count_recent(Task, RECENT_SECONDS, Task.kind, Task.status),
        ),
    ]


def list_hypervisor_families() -> list[GaugeFamily]:
    nodes = session.scalars(select(Hypervisor).order_by(Hypervisor.name)).all()
    storages = session.execute(
        select(Hypervisor.name, Storage.name, Storage.capacity, Storage.free)
        .join(Hypervisor)
        .where(Storage.enabled)
        .order_by(Hypervisor.name, Storage.name)
    ).all()
    return [
        GaugeFamily(
            "panel_hypervisor_up",
            "Whether the hypervisor answers and was polled lately.",
            ("hypervisor",),
            [((node.name,), hypervisors.get_condition(node) == "up") for node in nodes],
        ),
        GaugeFamily(
            "panel_hypervisor_maintenance",
            "Whether the hypervisor is in maintenance.",
            ("hypervisor",),
            [((node.name,), node.maintenance) for node in nodes],
        ),
        GaugeFamily(
            "panel_hypervisor_last_seen_timestamp_seconds",
            "When the hypervisor last answered.",
            ("hypervisor",),
            [((node.name,), node.seen_at.timestamp()) for node in nodes if node.seen_at],
        ),
        GaugeFamily(
            "panel_storage_size_bytes",
            "Capacity of an enabled storage.",
            ("hypervisor", "storage"),
            [((node, storage), capacity) for node, storage, capacity, _ in storages],
        ),
        GaugeFamily(
            "panel_storage_free_bytes",
            "Free space of an enabled storage.",
            ("hypervisor", "storage"),
            [((node, storage), free) for node, storage, _, free in storages],
        ),
    ]


def list_delivery_families() -> list[GaugeFamily]:
    query = select(WebhookDelivery.status, func.count(), func.min(WebhookDelivery.due_at))
    open_rows = session.execute(query.where(text(OPEN_DELIVERY_SQL)).group_by(WebhookDelivery.status)).all()
    disabled = session.scalar(
        select(func.count()).select_from(WebhookSubscription).where(WebhookSubscription.disabled_at.is_not(None))
    )
    return [
        GaugeFamily(
            "panel_webhook_deliveries",
            "Webhook deliveries with an attempt to come, by status.",
            ("status",),
            [((status,), count) for status, count, _ in open_rows],
        ),
        GaugeFamily(
            "panel_webhook_delay_seconds",
            "How long the oldest attempt of a webhook delivery is overdue; 0 if none is.",
            (),
            [((), compute_age(min((due_at for _, _, due_at in open_rows), default=None)))],
        ),
        GaugeFamily(
            "panel_recent_webhook_deliveries",
            "Webhook deliveries of events of the last hour, by status.",
            ("status",),
            count_recent(WebhookDelivery, RECENT_SECONDS, WebhookDelivery.status),
        ),
        GaugeFamily(
            "panel_webhook_subscriptions_disabled",
            "Webhook subscriptions that were disabled after too many failures.",
            (),
            [((), disabled or 0)],
        ),
    ]


def list_backup_families() -> list[GaugeFamily]:
    status, finished_at = InstallationBackup.status, InstallationBackup.finished_at
    last = session.execute(
        select(
            func.max(case((status == "completed", finished_at))), func.max(case((status == "failed", finished_at)))
        ).where(status.in_(("completed", "failed")))
    ).one()
    return [
        GaugeFamily(
            "panel_installation_backup_timestamp_seconds",
            "When the last backup of the installation ended, by its status.",
            ("status",),
            [((word,), at.timestamp()) for word, at in zip(("completed", "failed"), last, strict=True) if at],
        ),
        GaugeFamily(
            "panel_recent_backups",
            "Backups of instances and volumes that began within the last day, by status.",
            ("status",),
            count_recent(InstanceBackup, RECENT_BACKUP_SECONDS, InstanceBackup.status),
        ),
    ]


def count_recent(model: Any, seconds: int, *columns: Any) -> list[tuple[tuple[str, ...], float]]:
    """Count the rows that were created within these seconds by the values of the columns.

    Ids begin with the time (UUIDv7), so the primary key finds the rows.
    """
    since = clock.now() - timedelta(seconds=seconds)
    query = select(*columns, func.count()).where(model.id >= make_first_id(since.timestamp()))
    return [(tuple(row[:-1]), row[-1]) for row in session.execute(query.group_by(*columns).order_by(*columns))]


def make_first_id(seconds: float) -> str:
    """Return a text that is before all ids of that millisecond and after all earlier ones."""
    digits = f"{int(seconds * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def compute_age(at: Any) -> float:
    return max(0.0, (clock.now() - at).total_seconds()) if at else 0.0
