"""The tables, one file a resource."""

from panel.models.accounts import Account, SignIn
from panel.models.events import Event
from panel.models.hypervisors import Hypervisor, HypervisorGroup, Storage
from panel.models.images import Image, ImageCopy
from panel.models.instances import Disk, Instance, Interface
from panel.models.plans import Plan, PlanGroup
from panel.models.ssh_keys import SshKey
from panel.models.subnets import Address, Subnet
from panel.models.tasks import Task, TaskLog
from panel.models.tokens import Token

__all__ = [
    "Account",
    "Address",
    "Disk",
    "Event",
    "Hypervisor",
    "HypervisorGroup",
    "Image",
    "ImageCopy",
    "Instance",
    "Interface",
    "Plan",
    "PlanGroup",
    "SignIn",
    "SshKey",
    "Storage",
    "Subnet",
    "Task",
    "TaskLog",
    "Token",
]
