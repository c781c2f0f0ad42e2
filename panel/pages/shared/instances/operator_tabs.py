"""The operators' parts of an instance's tabs: placement, node messages, operators' settings."""

from panel.core.db import session
from panel.core.formatting import format_gib
from panel.schemas.accounts import Email
from panel.schemas.base import In, Int, Text
from panel.schemas.disks import DiskIn
from panel.schemas.network import AddressesIn, BandwidthIn
from panel.schemas.topology import TopologyIn
from panel.services import backup_policies, instance_backups, instances, metrics, tasks
from panel.services.instances import topology
from panel.web.forms import Form
from panel.web.paging import Page
from panel.web.translation import get_request_language

MAX_RECENT_TASKS = 10


class DiskGrowthForm(In):
    """A disk and its new size in GiB."""

    disk_id = Text(maximum=36, required=True)
    new_size = Int(1, 65536, required=True)


class NewOwnerForm(In):
    """The new owner of an instance."""

    owner = Email(required=True)


def build_context(instance, tab):
    """Return the context of the operators' parts of a tab."""
    context = {}
    if tab == "overview":
        context["tasks"] = session.scalars(tasks.listing(resource_id=instance.id).limit(MAX_RECENT_TASKS)).all()
    if tab == "metrics":
        context["now"] = metrics.describe_now(instance)
    if tab == "backups":
        context["page"] = Page(instance_backups.listing(instance_id=instance.id))
        context["policy"] = backup_policies.map_policies([instance.id]).get(instance.id)
        context["jobs"] = backup_policies.map_jobs([instance])[instance.id]
        context["policies"] = session.execute(backup_policies.select_usable_names(instance.account_id)).all()
        context["backup_error"] = instances.REASON_MESSAGES.get(
            instances.action_error(instance, "backup", by_operator=True)
        )
    if tab == "storage":
        context |= {"add_disk_form": Form(DiskIn), "grow_form": Form(DiskGrowthForm)}
        context["sizes"] = [
            (disk.id, f"{disk.name}, {format_gib(disk.size, get_request_language())}") for disk in instance.disks
        ]
        context["storages"] = [
            (storage.id, storage.name) for storage in instance.hypervisor.storages if storage.enabled
        ]
    if tab == "settings":
        context |= {
            "new_owner_form": Form(NewOwnerForm),
            "topology": Form(TopologyIn, initial=get_current_topology(instance)),
        }
        context["topology_error"] = instances.REASON_MESSAGES.get(topology.change_error(instance))
    if tab == "network":
        card = instance.primary_interface
        initial = {"bandwidth": instance.bandwidth, "port_speed": card.port_speed if card else 0}
        context |= {
            "limits": Form(BandwidthIn, initial=initial),
            "add_addresses_form": Form(AddressesIn, initial={"family": 4, "kind": "public"}),
        }
    return context


def get_current_topology(instance):
    """Return the topology of the next start. The default is one socket per core."""
    return dict(
        zip(topology.TOPOLOGY_PARTS, topology.get_effective(instance) or (instance.cpu_cores, 1, 1), strict=True)
    )
