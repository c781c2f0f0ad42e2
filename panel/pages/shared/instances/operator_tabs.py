"""What only operators see of an instance: where it runs, what the nodes said, and what is theirs to set."""

from panel.core.db import session
from panel.schemas.accounts import Email
from panel.schemas.base import In, Int, Text
from panel.schemas.disks import DiskIn
from panel.schemas.network import AddressesIn, BandwidthIn
from panel.schemas.topology import TopologyIn
from panel.services import instances, metrics, tasks
from panel.services.instances import topology
from panel.web.formatting import gib
from panel.web.forms import Form

MAX_RECENT_TASKS = 10


class DiskGrowthForm(In):
    """A disk and the size it is to have, in GiB."""

    disk_id = Text(most=36, required=True)
    new_size = Int(1, 65536, required=True)


class NewOwnerForm(In):
    """The account that an instance is given to."""

    owner = Email(required=True)


def build_context(instance, tab):
    """What their parts of a tab read, beside what the customer's read."""
    context = {"may_do": instances.action_error}
    if tab == "overview":
        context["work"] = session.scalars(tasks.listing(resource_id=instance.id).limit(MAX_RECENT_TASKS)).all()
    if tab == "metrics":
        context["now"] = metrics.describe_now(instance)
    if tab == "storage":
        context |= {"adding": Form(DiskIn), "growing": Form(DiskGrowthForm)}
        context["sizes"] = [(disk.id, f"{disk.name}, {gib(disk.size)}") for disk in instance.disks]
        context["storages"] = [(each.id, each.name) for each in instance.hypervisor.storages if each.enabled]
    if tab == "settings":
        context |= {"giving": Form(NewOwnerForm), "topology": Form(TopologyIn, initial=current_topology(instance))}
        context["no_topology"] = instances.REASONS.get(topology.change_error(instance))
    if tab == "network":
        card = instance.primary_interface
        known = {"bandwidth": instance.bandwidth, "port_speed": card.port_speed if card else 0}
        context |= {
            "limits": Form(BandwidthIn, initial=known),
            "given": Form(AddressesIn, initial={"family": 4, "kind": "public"}),
        }
    return context


def current_topology(instance):
    """The topology that is in effect at its next start; without a chosen one each core is a processor of its own."""
    return dict(
        zip(topology.TOPOLOGY_PARTS, topology.get_effective(instance) or (instance.cpu_cores, 1, 1), strict=True)
    )
