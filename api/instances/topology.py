"""The processor topology of an instance."""

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
    """Set how the processors look to the guest.

    Sockets, cores and threads have to make the instance's `cpu_cores`, else it is refused with 422 and
    `topology_mismatch`. A guest that runs has it after its next start (`topology_pending`). With another number of
    cores, by a change of plan, it does not count any more.
    """
    instance = instances.get(instance_id)
    topology.modify(instance, body, actor=kit.get_current_actor())
    kit.set_message("The topology is set. A guest that runs has it after its next start.")
    return instance
