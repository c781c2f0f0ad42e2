"""Hypervisors: the hosts of machines, for operators."""

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
    hypervisor_id = fields.String(**describe("The hypervisor that was added.", EXAMPLE_ID))


@admin.get(
    "/hypervisors",
    op="list",
    can="admin:hypervisors:read",
    query=HypervisorQuery,
    out=kit.build_admin_page_schema(HypervisorRow),
)
def listing(query):
    """List the hypervisors, by name.

    By name, with status, capacity and what is promised. `search`, `status` and the group narrow the list.
    """
    return kit.paginate(hypervisors.with_allocation(hypervisors.listing(**query)))


@admin.post("/hypervisors", op="create", can="admin:hypervisors:write", body=HypervisorIn, out=AddedHypervisor)
def create(body):
    """Add a hypervisor.

    A worker looks at it at once: its `status` is `unknown` until then, and `up` or `down` afterwards.
    """
    group = hypervisors.get_group(body.pop("hypervisor_group_id"), "hypervisor_group_id")
    kit.set_message("The hypervisor is added and is being looked at.")
    return {"hypervisor_id": hypervisors.create(group, **body).id}


@admin.get("/hypervisor/<hypervisor_id>", op="get", can="admin:hypervisors:read", out=HypervisorOut)
def show(hypervisor_id):
    """Show a hypervisor.

    With what is promised of it and when a worker saw it last. 404 when there is no such hypervisor.
    """
    return hypervisors.get(hypervisor_id)


@admin.patch(
    "/hypervisor/<hypervisor_id>", op="update", can="admin:hypervisors:write", body=HypervisorPatch, out=HypervisorOut
)
def update(body, hypervisor_id):
    """Change a hypervisor.

    Only what is sent changes: `{"maintenance": true}` is enough to close it. In maintenance it takes no new instances;
    those on it go on running. A new `uri` sets the status to `unknown` until a worker has connected. 409 for another
    group while instances are on it, 422 for a name or an address that another hypervisor has. With an `Idempotency-Key`
    a repeated request is carried out once.
    """
    kit.set_message("The hypervisor is changed.")
    return hypervisors.update(hypervisors.get(hypervisor_id), **body)


@admin.delete("/hypervisor/<hypervisor_id>", op="delete", can="admin:hypervisors:write")
def delete(hypervisor_id):
    """Remove a hypervisor from the panel.

    Refused while instances are on it; nothing is changed on the host. That is a 409, and so are volumes on it. For one
    that will not come back, use `DELETE /api/v1/hypervisor/{id}/force`.
    """
    hypervisors.delete(hypervisors.get(hypervisor_id))
    kit.set_message("The hypervisor is removed.")


class LostIn(In):
    name = Text(maximum=64, required=True, **describe("Its name, to confirm: this cannot be undone.", "node-3"))


@admin.delete("/hypervisor/<hypervisor_id>/force", op="give_up", can="admin:hypervisors:write", body=LostIn)
def force_remove(body, hypervisor_id):
    """Give up a hypervisor that will not come back.

    Its instances and volumes are removed from the panel, their addresses are free again, and they cost nothing any
    more. Nothing is changed on the host. Refused with `hypervisor_up` while it answers and with `task_running` while a
    machine is being moved from it or to it.
    """
    hypervisor_removal.force_remove(hypervisors.get(hypervisor_id), actor=kit.get_current_actor(), **body)
    kit.set_message("The hypervisor and everything that was on it are removed.")


@admin.post("/hypervisor/<hypervisor_id>/test", op="test", can="admin:hypervisors:write", out=HypervisorOut)
def test(hypervisor_id):
    """Look at a hypervisor now.

    A worker connects to it. When `status` is no longer `unknown` and `seen_at` or `status_detail` is new, it is done.
    """
    hypervisor = hypervisors.get(hypervisor_id)
    hypervisors.test(hypervisor)
    kit.set_message("The hypervisor is being looked at.")
    return hypervisor


@admin.get("/hypervisor/<hypervisor_id>/metrics", op="metrics", can="admin:hypervisors:read", out=HostNow)
def metrics(hypervisor_id):
    """Show what a hypervisor has, what is promised of it, and what its instances use at this moment.

    Measured by a worker and not by this call.
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

    Destroyed instances are not counted.
    """
    states = overview.count_states(hypervisors.get(hypervisor_id))
    return {"total": sum(states.values()), "states": states}


@admin.get("/hypervisor/<hypervisor_id>/ipv4/stats", op="ipv4_stats", can="admin:hypervisors:read", out=Ipv4Stats)
def ipv4_stats(hypervisor_id):
    """Count the IPv4 addresses that a hypervisor's instances hold, and those that its group has left.

    Private addresses are not counted.
    """
    return subnets.get_ipv4_usage(hypervisors.get(hypervisor_id))
