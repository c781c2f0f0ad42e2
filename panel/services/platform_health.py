"""The state of the platform in five figures, for its operators' overview."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

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
