"""The CPU topology of an instance."""

from api import kit
from api.instances import admin
from panel.schemas.instances import AdminInstanceOut
from panel.schemas.topology import TopologyIn
from panel.services import instances
from panel.services.instances import topology


@admin.put(
    "/instance/<instance_id>/modify/topology",
    op="set_topology",
    can="admin:instances:write",
    body=TopologyIn,
    out=AdminInstanceOut,
)
def set_topology(body, instance_id):
    """Set the CPU topology of an instance.

    The product of sockets, cores and threads must equal the instance's `cpu_cores`; otherwise the request returns 422
    `topology_mismatch`. A running guest gets it at its next start (`topology_pending`). The topology no longer applies
    after a change to a plan with another number of cores.
    """
    instance = instances.get(instance_id)
    topology.modify(instance, body, actor=kit.get_current_actor())
    kit.set_message("Topology saved. It takes effect at next boot.")
    return instance
