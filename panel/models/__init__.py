"""The tables, one file a resource."""

from panel.models.accounts import Account, SignIn
from panel.models.audit import AuditEntry
from panel.models.billing import CreditEntry, Rental, UsageHour, UsageMonth
from panel.models.consoles import ConsoleSession
from panel.models.events import Event
from panel.models.factors import Device, Link, Passkey, RecoveryCode
from panel.models.hypervisors import Hypervisor, HypervisorGroup, Storage
from panel.models.images import Image, ImageCopy
from panel.models.instances import Disk, Instance, Interface
from panel.models.mails import Mail
from panel.models.plans import Plan, PlanGroup
from panel.models.projects import Project
from panel.models.repeats import Repeat
from panel.models.settings import Setting
from panel.models.ssh_keys import SshKey
from panel.models.subnets import Address, Subnet
from panel.models.tasks import Task, TaskLog
from panel.models.team import Grant, Member, Role
from panel.models.tokens import Token
from panel.models.webhooks import WebhookDelivery, WebhookSubscription

__all__ = [
    "Account",
    "Address",
    "AuditEntry",
    "ConsoleSession",
    "CreditEntry",
    "Device",
    "Disk",
    "Event",
    "Grant",
    "Hypervisor",
    "HypervisorGroup",
    "Image",
    "ImageCopy",
    "Instance",
    "Interface",
    "Link",
    "Mail",
    "Member",
    "Passkey",
    "Plan",
    "PlanGroup",
    "Project",
    "RecoveryCode",
    "Rental",
    "Repeat",
    "Role",
    "Setting",
    "SignIn",
    "SshKey",
    "Storage",
    "Subnet",
    "Task",
    "TaskLog",
    "Token",
    "UsageHour",
    "UsageMonth",
    "WebhookDelivery",
    "WebhookSubscription",
]
