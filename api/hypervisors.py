"""Hypervisors: the hosts of instances, for operators."""

from marshmallow import fields

from api import kit
from panel.schemas.base import In, Out, Text, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.host_metrics import HostNow
from panel.schemas.hypervisors import (
    HypervisorIn,
    HypervisorOut,
    HypervisorPatch,
    HypervisorQuery,
    HypervisorRow,
    InstanceStats,
    Ipv4Stats,
)
from panel.services import hypervisor_removal, hypervisors, overview, subnets
from panel.services.metrics.hosts import describe_host

admin = kit.Admin("hypervisor", __name__, description="Hypervisors")


class AddedHypervisor(Out):
    hypervisor_id = fields.String(**describe("Id of the new hypervisor.", EXAMPLE_ID))


@admin.get(
    "/hypervisors",
    op="list",
    can="admin:hypervisors:read",
    query=HypervisorQuery,
    out=kit.build_admin_page_schema(HypervisorRow),
)
def listing(query):
    """List hypervisors, by name.

    Contains status, capacity and allocated resources. Filter with `search` and `status`.
    """
    return kit.paginate(hypervisors.with_allocation(hypervisors.listing(**query)))


@admin.post("/hypervisors", op="create", can="admin:hypervisors:write", body=HypervisorIn, out=AddedHypervisor)
def create(body):
    """Add a hypervisor.

    A worker connects to it immediately: its `status` is `unknown` until then, and `up` or `down` afterwards.
    """
    group = hypervisors.get_group(body.pop("hypervisor_group_id"), "hypervisor_group_id")
    kit.set_message("Hypervisor created. A worker connects to it.")
    return {"hypervisor_id": hypervisors.create(group, **body).id}


@admin.get("/hypervisor/<hypervisor_id>", op="get", can="admin:hypervisors:read", out=HypervisorOut)
def show(hypervisor_id):
    """Get a hypervisor.

    Contains the allocated resources and the time of its last response. Returns 404 if the hypervisor does not exist.
    """
    return hypervisors.get(hypervisor_id)


@admin.patch(
    "/hypervisor/<hypervisor_id>", op="update", can="admin:hypervisors:write", body=HypervisorPatch, out=HypervisorOut
)
def update(body, hypervisor_id):
    """Update a hypervisor.

    Only the fields you send are changed: `{"maintenance": true}` is enough to stop new placements. In maintenance it
    accepts no new instances; existing ones keep running. A new `uri` sets the status to `unknown` until a worker has
    connected. Returns 409 for a change of group while instances are on the hypervisor, and 422 for a name or address of
    another hypervisor. With an `Idempotency-Key`, a repeated request is executed once.
    """
    kit.set_message("Hypervisor updated.")
    return hypervisors.update(hypervisors.get(hypervisor_id), **body)


@admin.delete("/hypervisor/<hypervisor_id>", op="delete", can="admin:hypervisors:write")
def delete(hypervisor_id):
    """Remove a hypervisor from the panel.

    Nothing is changed on the host. Returns 409 while instances or volumes are on the hypervisor. If the host is lost,
    use `DELETE /api/v1/hypervisor/{id}/force`.
    """
    hypervisors.delete(hypervisors.get(hypervisor_id))
    kit.set_message("Hypervisor removed from the panel. Nothing was changed on the host.")


class LostIn(In):
    name = Text(
        maximum=64,
        required=True,
        **describe("The name of the hypervisor, as confirmation. This cannot be undone.", "node-3"),
    )


@admin.delete("/hypervisor/<hypervisor_id>/force", op="give_up", can="admin:hypervisors:write", body=LostIn)
def force_remove(body, hypervisor_id):
    """Remove a lost hypervisor with everything on it.

    Its instances and volumes are deleted from the panel, their addresses are released, and billing for them ends.
    Nothing is changed on the host. Returns 409 `hypervisor_up` while the hypervisor responds, and `task_running` while
    an instance is being migrated from or to it.
    """
    hypervisor_removal.force_remove(hypervisors.get(hypervisor_id), actor=kit.get_current_actor(), **body)
    kit.set_message("Hypervisor and everything on it removed from the panel.")


@admin.post("/hypervisor/<hypervisor_id>/test", op="test", can="admin:hypervisors:write", out=HypervisorOut)
def test(hypervisor_id):
    """Check the connection to a hypervisor.

    A worker connects to it. The check is complete when `status` is no longer `unknown` and `seen_at` or `status_detail`
    has changed.
    """
    hypervisor = hypervisors.get(hypervisor_id)
    hypervisors.test(hypervisor)
    kit.set_message("Connection check requested.")
    return hypervisor


@admin.get("/hypervisor/<hypervisor_id>/metrics", op="metrics", can="admin:hypervisors:read", out=HostNow)
def metrics(hypervisor_id):
    """Get capacity, allocated resources and current usage of a hypervisor.

    Returns the latest values that a worker measured; this call does not query the host.
    """
    return describe_host(hypervisors.get(hypervisor_id))


@admin.get(
    "/hypervisor/<hypervisor_id>/instances/stats",
    op="instance_stats",
    can="admin:hypervisors:read",
    out=InstanceStats,
)
def instance_stats(hypervisor_id):
    """Count the instances of a hypervisor by state.

    Destroyed instances are not included.
    """
    states = overview.count_states(hypervisors.get(hypervisor_id))
    return {"total": sum(states.values()), "states": states}


@admin.get("/hypervisor/<hypervisor_id>/ipv4/stats", op="ipv4_stats", can="admin:hypervisors:read", out=Ipv4Stats)
def ipv4_stats(hypervisor_id):
    """Count used and available public IPv4 addresses of a hypervisor.

    Private addresses are not included.
    """
    return subnets.get_ipv4_usage(hypervisors.get(hypervisor_id))
