"""Metrics of instances, current and over time."""

from api.instances import admin, user
from api.instances.customer import get_own_instance
from panel.schemas.metrics import MetricsNow, MetricsQuery, MetricsSeries
from panel.services import instances, metrics, watched_instances


@user.get("/instance/<instance_id>/metrics", op="metrics", can="instances.view", query=MetricsQuery, out=MetricsSeries)
def show_series(query, instance_id):
    """Show what an instance used.

    A series as long as `timeRange` says, by default an hour. The network is seen from the guest: what it receives is
    its download.
    """
    instance = get_own_instance(instance_id)
    watched_instances.mark_watched(instance)
    return metrics.get_series(instance, **query)


@admin.get("/instance/<instance_id>/metrics", op="metrics", can="admin:instances:read", out=MetricsNow)
def show_now(instance_id):
    """Show what an instance uses at the moment.

    Figures are those that the node counts, averages of about 15 seconds, and null when none was taken in the last
    minute. `agent` says whether the guest agent answers, and why not: `not_running` or `agent_not_reporting`. While
    somebody asks for this at least once a minute, an agent that stops answering is noticed within 15 seconds, else
    within 2 minutes.
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
    """Show what an instance used, as a series.

    `timeRange` says how far back. Gaps are times without a report of the hypervisor.
    """
    instance = instances.get(instance_id)
    watched_instances.mark_watched(instance)
    return metrics.get_series(instance, **query)
