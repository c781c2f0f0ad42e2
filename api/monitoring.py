"""What is measured of a customer's resources."""

from api import kit
from panel.auth import require_also
from panel.core.errors import NotFound
from panel.schemas.metrics import MetricsQuery, MetricsSeries
from panel.schemas.monitoring import MonitoredResourceOut, MonitoringSummaryOut
from panel.services import instances, metrics, monitoring

user = kit.User("monitoring", __name__, description="Monitoring")


@user.get(
    "/monitoring",
    op="list",
    can="monitoring.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(MonitoredResourceOut),
)
def listing():
    """List monitored resources with their current values.

    Newest first. Instances are the only monitored resources so far. Values are null if nothing was measured in the last
    minute, for example because the instance is stopped. The list is empty for team members without `instances.view`.
    """
    page = kit.paginate(monitoring.listing(kit.get_current_access()))
    return {**page, "data": monitoring.describe_resources(page["data"])}


@user.get(
    "/monitoring/summary",
    op="summary",
    can="monitoring.view",
    out=kit.build_wrapped_schema("data", MonitoringSummaryOut),
)
def summary():
    """Count monitored resources, alert rules, firing alerts and notification channels.

    Team members without `instances.view` have no resources.
    """
    return {"message": None, "data": monitoring.summarize(kit.get_current_access())}


@user.get(
    "/monitoring/metrics/<resource_type>/<resource_id>",
    op="metrics",
    can="monitoring.view",
    query=MetricsQuery,
    out=MetricsSeries,
)
def show_series(query, resource_type, resource_id):
    """Get the metrics of a resource over time.

    Returns the same series as `GET /api/instance/{instance_id}/metrics`. Returns 404 for every type but `instance`.
    Team members also need `instances.view`.
    """
    if resource_type != "instance":
        raise NotFound("Nothing is measured of resources of this type.")
    instance = instances.get(resource_id, kit.get_current_access())
    require_also("instances.view")
    return metrics.get_series(instance, **query)
