"""Metrics of instances, current and over time."""

from api.instances import admin, user
from api.instances.customer import get_own_instance
from panel.schemas.metrics import MetricsNow, MetricsQuery, MetricsSeries
from panel.services import instances, metrics, watched_instances


@user.get("/instance/<instance_id>/metrics", op="metrics", can="instances.view", query=MetricsQuery, out=MetricsSeries)
def show_series(query, instance_id):
    """Get the usage of an instance as a time series.

    `timeRange` is the length of the series, one hour by default. Network values are from the guest's point of view:
    what it receives is its download.
    """
    instance = get_own_instance(instance_id)
    watched_instances.mark_watched(instance)
    return metrics.get_series(instance, **query)


@admin.get("/instance/<instance_id>/metrics", op="metrics", can="admin:instances:read", out=MetricsNow)
def show_now(instance_id):
    """Get the current usage of an instance.

    Values are measured on the hypervisor, as averages of about 15 seconds; they are null if there is none from the last
    minute. `agent` shows whether the guest agent responds, and the reason if not: `not_running` or
    `agent_not_reporting`. If you call this at least once a minute, an agent that stops responding is detected within 15
    seconds, otherwise within 2 minutes.
    """
    instance = instances.get(instance_id)
    watched_instances.mark_watched(instance)
    return metrics.describe_now(instance)


@admin.get(
    "/instance/<instance_id>/metrics/series",
    op="metrics_series",
    can="admin:instances:read",
    query=MetricsQuery,
    out=MetricsSeries,
)
def admin_show_series(query, instance_id):
    """Get the usage of an instance as a time series.

    `timeRange` is the length of the series. Gaps are times without a report from the hypervisor.
    """
    instance = instances.get(instance_id)
    watched_instances.mark_watched(instance)
    return metrics.get_series(instance, **query)
