"""Attaching instances to policies."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Select, func, select
from sqlalchemy.orm import load_only

from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import Account, BackupPolicy, BackupPolicyInstance, HypervisorGroup, Instance
from panel.services.access import Access

SHOWN_COLUMNS = load_only(Instance.display_name, Instance.hostname)


def select_instances(policy: BackupPolicy, account: Access | Account | None = None) -> Select[Instance]:
    """Select the instances attached to the policy, as far as the account may see them."""
    query = select(Instance).join(BackupPolicyInstance, BackupPolicyInstance.instance_id == Instance.id)
    query = query.where(BackupPolicyInstance.policy_id == policy.id).options(SHOWN_COLUMNS)
    if account:
        query = query.where(account.visible_rows(Instance))
    return query.order_by(Instance.display_name, Instance.id)


def select_available_instances(account: Access | Account) -> Select[Instance]:
    """Select the account's instances without a policy."""
    attached = select(BackupPolicyInstance.instance_id)
    query = select(Instance).where(account.visible_rows(Instance), Instance.id.not_in(attached))
    return query.options(SHOWN_COLUMNS).order_by(Instance.display_name, Instance.id)


def find_attached(instance: Instance) -> BackupPolicy | None:
    """Return the policy of the instance: one of its owner or of the platform."""
    link = session.get(BackupPolicyInstance, instance.id)
    return link.policy if link else None


def count_instances(policies: Iterable[BackupPolicy], account: Access | Account | None = None) -> dict[str, int]:
    """Return how many instances are attached to each policy, by its id, as far as the account may see them."""
    link = BackupPolicyInstance
    query = select(link.policy_id, func.count()).join(Instance, Instance.id == link.instance_id)
    query = query.where(link.policy_id.in_([policy.id for policy in policies]))
    if account:
        query = query.where(account.visible_rows(Instance))
    return {policy_id: count for policy_id, count in session.execute(query.group_by(link.policy_id))}


def map_policies(instance_ids: Iterable[str]) -> dict[str, BackupPolicy]:
    """Return the policy of each of the instances that has one, by the instance's id."""
    query = select(BackupPolicyInstance.instance_id, BackupPolicy).join(BackupPolicyInstance.policy)
    return dict(session.execute(query.where(BackupPolicyInstance.instance_id.in_(list(instance_ids)))).all())


def list_default_locations(policy: BackupPolicy) -> Sequence[HypervisorGroup]:
    """Return the locations whose new instances are attached to the policy."""
    query = select(HypervisorGroup).where(HypervisorGroup.default_backup_policy_id == policy.id)
    return session.scalars(query.order_by(HypervisorGroup.display_name)).all()


def attach(policy: BackupPolicy, instance: Instance) -> None:
    """Attach an instance, also again. An instance has one policy; that of an account takes its own instances only."""
    if policy.account_id and policy.account_id != instance.account_id:
        sentence = message("The policy belongs to another account than the instance.")
        raise Invalid(sentence, instance_id=sentence)
    link = session.get(BackupPolicyInstance, instance.id)
    if link is not None and link.policy_id != policy.id:
        raise Conflict(message("The instance has another backup policy. Detach it first."), reason="already_attached")
    if link is None:
        session.add(BackupPolicyInstance(instance_id=instance.id, policy_id=policy.id))
        session.flush()
    session.expire(instance, ["backup_policy_id"])


def detach(policy: BackupPolicy, instance: Instance) -> None:
    link = session.get(BackupPolicyInstance, instance.id)
    if link is None or link.policy_id != policy.id:
        raise Conflict(message("The instance is not attached to this policy."), reason="not_attached")
    session.delete(link)
    session.flush()
    session.expire(instance, ["backup_policy_id"])


def attach_default(instance: Instance) -> None:
    """Attach a new instance to the default policy of its location, if there is one."""
    policy_id = instance.group.default_backup_policy_id
    if policy_id and (policy := session.get(BackupPolicy, policy_id)):
        attach(policy, instance)


def detach_from_owner(instance: Instance) -> None:
    """Detach the instance from a policy of its owner. One of the platform stays."""
    link = session.get(BackupPolicyInstance, instance.id)
    if link is not None and link.policy.account_id is not None:
        session.delete(link)
        session.flush()
