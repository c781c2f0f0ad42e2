"""Metrics of a customer's resources, for Prometheus."""

from flask import Response, request

from api import kit
from panel.auth import require_also
from panel.services import instances, metrics

user = kit.User("metrics", __name__, description="Metrics for Prometheus")
METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@user.get("/metrics", op="account", can="metrics.view", budget="metrics", out=kit.METRICS_RESPONSE)
def show_account():
    """Get the metrics of all resources.

    Every sample has the labels `id` and `name`. Running instances have `hv_instance_cpu_percent`, `_memory_percent`,
    `_disk_percent`, `_network_receive_mbps`, `_network_transmit_mbps`, `_disk_read_iops` and `_disk_write_iops`.
    Network values are from the instance's point of view: receive is its download. `_disk_percent` needs the guest
    agent. `hv_resource_up` is 1 if the resource was measured within the last minute and 0 if not, for example because
    it is stopped or its hypervisor does not respond; the status is 200 then, too. A team member's token returns only
    the resources that the member may view. The response is cached for 10 seconds. A token may scrape 30 times a minute,
    unless the platform has another limit; scrape every 15 to 60 seconds.
    """
    export = metrics.export_account(kit.get_current_access())
    is_gzip_accepted = "gzip" in request.accept_encodings
    response = build_response(export.compressed if is_gzip_accepted else export.plain)
    if is_gzip_accepted:
        response.content_encoding = "gzip"
    response.set_etag(f"{export.digest}-{'gzip' if is_gzip_accepted else 'plain'}")
    response.vary.add("Accept-Encoding")
    return response


@user.get(
    "/metrics/instances/<instance_id>", op="instance", can="metrics.view", budget="metrics", out=kit.METRICS_RESPONSE
)
def show_instance(instance_id):
    """Get the metrics of an instance.

    Returns the same metrics as for all resources, without caching. Team members also need `instances.view`. Returns 404
    if there is no such instance.
    """
    instance = instances.get(instance_id, kit.get_current_access())
    require_also("instances.view")
    return build_response(metrics.export_instance(instance))


def build_response(body):
    return Response(body, content_type=METRICS_CONTENT_TYPE)
