"""What is measured of a customer's resources now, and how many alerts fire."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, false, func, select

from panel.core.db import session
from panel.models import AlertRule, AlertState, Instance, NotificationChannel
from panel.models.alert_rules import IS_FIRING
from panel.schemas.metrics import METRIC_DESCRIPTIONS
from panel.services import alert_rules, instances, notification_channels
from panel.services.access import Access
from panel.services.metrics import read


def listing(access: Access) -> Select[Instance]:
    """Select the instances that the person may see."""
    query = instances.select_list_rows(access)
    return query if access.has_permission("instances.view") else query.where(false())


def describe_resources(machines: Sequence[Instance]) -> list[dict[str, Any]]:
    """Return each instance with its current values and the number of alerts that fire for it. Two queries."""
    latest, ids = read.map_latest(machines), [machine.id for machine in machines]
    query = select(AlertState.resource_id, func.count()).where(IS_FIRING, AlertState.resource_id.in_(ids))
    firing = dict(session.execute(query.group_by(AlertState.resource_id)).all())
    return [
        {
            "type": "instance",
            "id": machine.id,
            "name": machine.display_name,
            "state": machine.state,
            "measured_at": latest.get(machine.id, {}).get("at"),
            "firing": firing.get(machine.id, 0),
            **{name: latest.get(machine.id, {}).get(name) for name in METRIC_DESCRIPTIONS},
        }
        for machine in machines
    ]


def summarize(access: Access) -> dict[str, int]:
    """Return how many resources, rules and channels there are, and how many of them need attention."""
    machines = listing(access).with_only_columns(Instance.id).order_by(None)
    rules = alert_rules.listing(access).with_only_columns(AlertRule.id).order_by(None)
    channels = notification_channels.listing(access).with_only_columns(NotificationChannel.id).order_by(None)
    counts = {
        "resources": machines,
        "resources_running": machines.where(Instance.state == "running"),
        "alert_rules": rules,
        "alert_rules_enabled": rules.where(AlertRule.enabled),
        "firing": select(AlertState.rule_id).where(
            IS_FIRING, AlertState.resource_id.in_(machines), AlertState.rule_id.in_(rules)
        ),
        "channels": channels,
        "channels_disabled": channels.where(~NotificationChannel.enabled),
    }
    numbers = (select(func.count()).select_from(query.subquery()).scalar_subquery() for query in counts.values())
    return dict(zip(counts, session.execute(select(*numbers)).one(), strict=True))
