"""What a new customer needs for a machine that is safe. Only steps that the person may take are listed."""

from sqlalchemy import Select, select

from panel.core.db import find_nonempty
from panel.models import (
    Account,
    BackupPolicyInstance,
    Instance,
    InstanceBackup,
    SecurityGroupMember,
    SshKey,
)
from panel.services import factors
from panel.services.access import Access

STEP_PERMISSIONS = {
    "ssh_key": "ssh_keys.manage",
    "instance": "instances.create",
    "firewall": "security_groups.manage",
    "backup": "backup_policies.manage",
}
"""The permission that each step needs; the second factor needs none."""


def list_steps(access: Access, account: Account) -> dict[str, bool]:
    """Return whether each step is done, by its name. `account` is the person's own. At most two queries."""
    visible_instances = select(Instance.id).where(access.visible_rows(Instance))
    backups = select(InstanceBackup.id).where(
        InstanceBackup.account_id == access.id,
        InstanceBackup.instance_id.in_(visible_instances),
        InstanceBackup.status == "complete",
    )
    queries: dict[str, Select] = {
        "ssh_key": select(SshKey.id).where(access.visible_rows(SshKey)),
        "instance": visible_instances,
        "firewall": select(SecurityGroupMember.instance_id).where(
            SecurityGroupMember.instance_id.in_(visible_instances)
        ),
        "backup": select(BackupPolicyInstance.instance_id).where(
            BackupPolicyInstance.instance_id.in_(visible_instances)
        ),
        "complete_backup": backups,
    }
    found = find_nonempty(queries)
    if "complete_backup" in found:
        found.add("backup")
    steps = {name: name in found for name, permission in STEP_PERMISSIONS.items() if access.has_permission(permission)}
    return steps | {"second_factor": factors.has_second_factor(account)}
