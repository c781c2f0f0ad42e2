"""Transferring an instance to another account.

The machine goes with its disks, addresses, snapshots, notes and tags, and the platform's security groups. The project
and the resource grants of the earlier owner's team end; tasks and events until now stay with the earlier owner. What
cannot be transferred must be detached first: detaching it automatically could lose data or open the machine.
"""

from sqlalchemy import delete, select

from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import (
    Account,
    AlertState,
    Image,
    Instance,
    Member,
    Rescue,
    ResourceGrant,
    SecurityGroup,
    SecurityGroupMember,
)
from panel.services import address_log, backup_policies, consoles, usage
from panel.services.instances.blockers import MEDIA_MOUNTED_MESSAGE
from panel.services.state_machine import TASK_RUNNING, make_problem

VOLUMES_ATTACHED_MESSAGE = message("Volumes of its owner are attached to it. Detach them first.")
SECURITY_GROUPS_MESSAGE = message("It is in security groups of its owner: {groups}. Take it out of them first.")
RESOURCE_PACK_MESSAGE = message("It was created from a resource pack of its owner, so it cannot be transferred.")
OWNER_CHANGED_MESSAGE = message("The instance has another owner now.")


def assign(instance: Instance, account: Account, *, error_field: str = "user_id") -> bool:
    """Transfer the instance. Return False when the account has it already. The current hour is still charged to the
    earlier owner."""
    if account.id == instance.account_id:
        return False
    ensure_valid_owner(account, error_field)
    ensure_transferable(instance)
    previous_owner_id = instance.account_id
    detach_from_owner(instance)
    instance.account, instance.project_id = account, None
    session.flush()
    usage.transfer(instance)
    address_log.record_released(instance)
    address_log.record_assigned(instance, (*instance.addresses, *instance.prefixes))
    for image in session.scalars(
        select(Image).where(Image.instance_id == instance.id, Image.account_id == previous_owner_id)
    ):
        image.instance_id = None
    for kind in ("screen", "shell"):
        consoles.close_all(instance, kind, OWNER_CHANGED_MESSAGE)
    session.flush()
    session.refresh(instance)
    return True


def ensure_valid_owner(account: Account, error_field: str) -> None:
    sentence = None
    if session.scalar(select(Member.id).where(Member.account_id == account.id)):
        sentence = message("{email} is a team member. Enter the owner of the team.", email=account.email)
    elif account.suspended_at:
        sentence = message("{email} is suspended.", email=account.email)
    if sentence:
        raise Invalid(sentence, **{error_field: sentence})


def ensure_transferable(instance: Instance) -> None:
    if instance.state == "migrating" or instance.rebuilding:
        raise make_problem(TASK_RUNNING)
    if instance.pack_id:
        raise Conflict(RESOURCE_PACK_MESSAGE, reason="has_pack")
    if instance.volumes:
        raise Conflict(VOLUMES_ATTACHED_MESSAGE, reason="has_volumes")
    if session.get(Rescue, instance.id):
        raise make_problem("rescue_active")
    if any(iso and iso.account_id for iso in (instance.iso, instance.secondary_iso)):
        raise Conflict(MEDIA_MOUNTED_MESSAGE, reason="has_media")
    query = select(SecurityGroup.name).join(SecurityGroupMember).where(SecurityGroupMember.instance_id == instance.id)
    names = session.scalars(query.where(SecurityGroup.account_id.is_not(None)).order_by(SecurityGroup.name)).all()
    if names:
        raise Conflict(SECURITY_GROUPS_MESSAGE.format(groups=", ".join(names)), reason="has_security_groups")


def detach_from_owner(instance: Instance) -> None:
    """Remove what must not go to the new owner: resource grants, the earlier owner's backup policy, the alerts of
    their rules, and the reference to an image of the earlier owner."""
    session.execute(delete(AlertState).where(AlertState.resource_id == instance.id))
    session.execute(delete(ResourceGrant).where(ResourceGrant.resource_id == instance.id))
    backup_policies.detach_from_owner(instance)
    if instance.image and instance.image.account_id:
        instance.image = None
