"""The state of the platform in five figures, for its operators' overview."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, text

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, Task, WebhookDelivery
from panel.models.tasks import is_open
from panel.models.webhooks import OPEN_DELIVERY_SQL
from panel.services import backup_coverage, hypervisors, overview

FAULT_PERIOD = timedelta(hours=1)
LONG_QUEUE_AGE = timedelta(minutes=1)
"""A task that waits longer than this waits for workers."""
DELIVERY_TOLERANCE = timedelta(minutes=1)
"""A delivery is late when its attempt is overdue by this."""


@dataclass
class PlatformHealth:
    hypervisors: Counter[str]
    """How many are `up`, `stale`, `unknown` and `down`."""
    oldest_queued_at: datetime | None
    """When the task was queued that has waited longest."""
    faults: int
    """Tasks of the last hour that failed because of the platform."""
    late_deliveries: int
    slow_account_id: str | None
    """The customer of the delivery that is overdue longest."""
    missing_backups: int

    @property
    def is_queue_slow(self) -> bool:
        return self.oldest_queued_at is not None and clock.now() - self.oldest_queued_at > LONG_QUEUE_AGE


def get_health() -> PlatformHealth:
    """Return the figures. Six queries, none of which reads more rows than are open, recent or hypervisors."""
    nodes = session.scalars(select(Hypervisor)).all()
    late = (text(OPEN_DELIVERY_SQL), WebhookDelivery.due_at < clock.now() - DELIVERY_TOLERANCE)
    faults = overview.select_failed_since(clock.now() - FAULT_PERIOD).with_only_columns(func.count()).order_by(None)
    return PlatformHealth(
        hypervisors=Counter(hypervisors.get_condition(node) for node in nodes),
        oldest_queued_at=session.scalar(
            select(func.min(Task.queued_at)).where(is_open(Task.status), Task.status == "queued")
        ),
        faults=session.scalars(faults).one(),
        late_deliveries=session.scalars(select(func.count()).select_from(WebhookDelivery).where(*late)).one(),
        slow_account_id=session.scalar(
            select(WebhookDelivery.account_id).where(*late).order_by(WebhookDelivery.due_at).limit(1)
        ),
        missing_backups=backup_coverage.count_overdue(),
    )


def describe_health() -> dict[str, Any]:
    """Return the figures with the problems that follow from them, and all hypervisors."""
    health, workers = get_health(), overview.count_workers()
    statuses = select(Task.status, func.count()).where(is_open(Task.status)).group_by(Task.status)
    tasks = dict(session.execute(statuses).all())
    problems = {
        "redis_unreachable": workers is None,
        "no_workers": workers == 0,
        "slow_queue": health.is_queue_slow,
        "hypervisors": health.hypervisors.total() > health.hypervisors["up"],
        "faults": health.faults,
        "late_deliveries": health.late_deliveries,
        "missing_backups": health.missing_backups,
    }
    nodes = session.scalars(select(Hypervisor).order_by(Hypervisor.name))
    return {
        "healthy": not any(problems.values()),
        "problems": [name for name, is_present in problems.items() if is_present],
        "workers": workers,
        "tasks_queued": tasks.get("queued", 0),
        "tasks_running": tasks.get("running", 0),
        "oldest_queued_at": health.oldest_queued_at,
        "faults": health.faults,
        "late_deliveries": health.late_deliveries,
        "missing_backups": health.missing_backups,
        "hypervisor_counts": dict(health.hypervisors),
        "hypervisors": [
            {"id": node.id, "name": node.name, "status": hypervisors.get_condition(node), "seen_at": node.seen_at}
            for node in nodes
        ],
    }
