"""What a new platform needs. Each step is tested against the rows and the configuration, so that a step that stops
working is open again."""

from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, Select, or_, select

from panel.core import context
from panel.core.db import find_nonempty, session
from panel.core.messages import Message
from panel.models import (
    Account,
    Address,
    BackupDestination,
    Hypervisor,
    Image,
    Mail,
    Passkey,
    Subnet,
)
from panel.models.backup_destinations import INSTANCE_BACKUPS
from panel.services import catalog, hypervisors, settings, subnets

TEST_IMAGE_NAMES = ("tiny", "rescue")
"""Built images that are no distribution which customers want."""

IS_FREE = (Address.interface_id.is_(None), ~Address.reserved)
HAS_FACTOR: ColumnElement[bool] = or_(
    Account.two_factor_at.is_not(None), select(Passkey.id).where(Passkey.account_id == Account.id).exists()
)


class Step(NamedTuple):
    name: str
    is_done: bool
    detail: Message | str | None = None
    """What failed, if something did."""


def list_steps() -> list[Step]:
    """Return all steps in the order in which they are best taken. Four queries."""
    nodes = session.scalars(select(Hypervisor).order_by(Hypervisor.name)).all()
    answering = [node for node in nodes if hypervisors.get_condition(node) == "up"]
    found = find_nonempty(
        {
            "subnet": select(Subnet.id).join(Address).where(Subnet.enabled, *subnets.PUBLIC_IPV4, *IS_FREE),
            "image": select_distributions(),
            "plan": catalog.select_sold_plans(),
            "operator_without_factor": select(Account.id).where(Account.operator_role.is_not(None), ~HAS_FACTOR),
        }
    )
    return [
        Step("hypervisor", bool(answering), next((node.status_detail for node in nodes if not answering), None)),
        find_kvm_step(answering),
        *(Step(name, name in found) for name in ("subnet", "image", "plan")),
        find_mail_step(),
        Step("public_address", is_public_address(context.current().config.public_url)),
        find_backup_step(),
        Step("second_factor", "operator_without_factor" not in found),
        Step("billing", settings.get().billing_enabled),
    ]


def find_kvm_step(answering: list[Hypervisor]) -> Step:
    without = [node for node in answering if not node.accelerated]
    return Step("kvm", bool(answering) and not without, without[0].acceleration_note if without else None)


def select_distributions() -> Select[Image]:
    query = catalog.select_public_images().where(Image.name.not_in(TEST_IMAGE_NAMES), Image.distro != "simulated")
    return query.where(Image.status == "available")


def find_mail_step() -> Step:
    """A mail server is configured, and no mail waits because it refused one."""
    error = session.scalar(select(Mail.error).where(Mail.error.is_not(None)).order_by(Mail.id.desc()).limit(1))
    return Step("mail", bool(context.current().config.mail_url) and error is None, error)


def is_public_address(url: str) -> bool:
    """Return whether the panel's address is https with a name that other machines can resolve."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return parts.scheme == "https" and "." in host and not host.endswith((".localhost", ".local"))
    return False


def find_backup_step() -> Step:
    query = select(BackupDestination.status, BackupDestination.status_detail)
    rows = session.execute(query.where(BackupDestination.purpose == INSTANCE_BACKUPS, BackupDestination.enabled)).all()
    if any(status == "available" for status, _ in rows):
        return Step("backup_destination", True)
    return Step("backup_destination", False, next((detail for _, detail in rows if detail), None))
