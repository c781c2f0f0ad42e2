"""Backup policies, in both dialects."""

from marshmallow import fields

from api import kit
from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.schemas.backup_policies import (
    AdminBackupPolicyIn,
    AdminBackupPolicyOut,
    AdminPolicyWithInstances,
    BackupPolicyIn,
    BackupPolicyOut,
    BackupPolicyPatch,
    PolicyInstanceIn,
    PolicyInstanceOut,
    PolicyWithInstances,
)
from panel.schemas.base import describe
from panel.services import accounts, backup_policies, instances
from panel.web.audit_view import audit_label

user = kit.User("instance_backup_policy", __name__, description="Backup policies")
admin = kit.Admin("instance_backup_policy", __name__, description="Backup policies")

POLICY_PATH = "/backup-policy/<policy_id>"
POLICY_RESPONSE = kit.build_wrapped_schema("policy", BackupPolicyOut)
POLICY_WITH_CHOICES = kit.Done.from_dict(
    {
        "policy": fields.Nested(PolicyWithInstances, **describe("The policy.")),
        "available_instances": fields.List(fields.Nested(PolicyInstanceOut), **describe("Instances without a policy.")),
    },
    name="PolicyWithChoices",
)()
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"


def get_own_policy(policy_id):
    return backup_policies.get(policy_id, kit.get_current_access())


def get_instance(instance_id, access=None):
    """Return the instance of a body. Raise Invalid for an id that is unknown or foreign."""
    try:
        return instances.get(instance_id, access)
    except NotFound as error:
        raise Invalid(error.message, instance_id=error.message) from None


def with_instances(policy, schema, access=None):
    """Return the attributes of the policy that the schema reads, with the instances that the caller may see."""
    rows = session.scalars(backup_policies.select_instances(policy, access)).all()
    return {name: getattr(policy, name) for name in schema.columns()} | {"instances": rows}


@user.get(
    "/backup-policies",
    op="list",
    can="backup_policies.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(BackupPolicyOut),
)
def listing():
    """List your backup policies by name."""
    return kit.paginate(backup_policies.listing(kit.get_current_access()))


@user.post("/backup-policies", op="create", can="backup_policies.manage", body=BackupPolicyIn, out=POLICY_RESPONSE)
def create(body):
    """Create a backup policy.

    It backs up the instances that are attached to it, at a time of day in the account's time zone, and deletes those of
    its backups that it does not retain; protected ones stay. `count` needs `retention_count`, `gfs` at least one rule
    above 0, `weekly` a `full_backup_day`.
    """
    access = kit.get_current_access()
    timezone = accounts.get(access.id).timezone
    return {"message": "Backup policy created.", "policy": backup_policies.create(access, timezone=timezone, **body)}


@user.get(POLICY_PATH, op="get", can="backup_policies.view", out=POLICY_WITH_CHOICES)
def show(policy_id):
    """Get a backup policy with its instances."""
    access = kit.get_current_access()
    policy = get_own_policy(policy_id)
    available = session.scalars(backup_policies.select_available_instances(access)).all()
    return {
        "message": None,
        "policy": with_instances(policy, BackupPolicyOut, access),
        "available_instances": available,
    }


@user.patch(POLICY_PATH, op="update", can="backup_policies.manage", body=BackupPolicyPatch, out=POLICY_RESPONSE)
def update(body, policy_id):
    """Update a backup policy.

    Only the fields you send are changed. Retention applies after its next backup.
    """
    return {"message": "Backup policy updated.", "policy": backup_policies.update(get_own_policy(policy_id), **body)}


@user.delete(POLICY_PATH, op="delete", can="backup_policies.delete", out=kit.build_result_schema())
def delete(policy_id):
    """Delete a backup policy.

    Its instances are detached. Its backups stay.
    """
    backup_policies.delete(get_own_policy(policy_id))
    return {"message": "Backup policy deleted."}


@user.post(
    f"{POLICY_PATH}/attach",
    op="attach_instance",
    can="backup_policies.manage",
    body=PolicyInstanceIn,
    out=kit.build_result_schema(),
)
@audit_label("Attach to backup policy")
def attach(body, policy_id):
    """Attach an instance to a backup policy.

    An instance has one policy. Returns 409 `already_attached` if it has another one.
    """
    policy = get_own_policy(policy_id)
    backup_policies.attach(policy, get_instance(body["instance_id"], kit.get_current_access()))
    return {"message": "Instance attached."}


@user.post(
    f"{POLICY_PATH}/detach",
    op="detach_instance",
    can="backup_policies.manage",
    body=PolicyInstanceIn,
    out=kit.build_result_schema(),
)
@audit_label("Detach from backup policy")
def detach(body, policy_id):
    """Detach an instance from a backup policy.

    Its backups stay. Returns 409 `not_attached` if it is not attached to this policy.
    """
    policy = get_own_policy(policy_id)
    backup_policies.detach(policy, get_instance(body["instance_id"], kit.get_current_access()))
    return {"message": "Instance detached."}


@user.post(
    f"{POLICY_PATH}/reset-failures",
    op="reset_failures",
    can="backup_policies.manage",
    out=kit.build_result_schema(),
)
@audit_label("Clear failures")
def reset_failures(policy_id):
    """Clear the failure counter of a backup policy."""
    backup_policies.reset_failures(get_own_policy(policy_id))
    return {"message": "Failures cleared."}


@admin.get(
    "/backup-policies",
    op="list",
    can=READ_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AdminBackupPolicyOut),
)
def admin_listing():
    """List all backup policies by name.

    Policies of the platform have no `user_id`.
    """
    return kit.paginate(backup_policies.listing())


@admin.post("/backup-policies", op="create", can=WRITE_PERMISSION, body=AdminBackupPolicyIn, out=AdminBackupPolicyOut)
def admin_create(body):
    """Create a backup policy.

    With `user_id` it belongs to that account, and its schedule is in the account's time zone. Without, it is the
    platform's, its schedule is in UTC, and instances of any account can be attached to it. Returns 422 under `user_id`
    for an unknown account.
    """
    user_id = body.pop("user_id", None)
    owner = accounts.get(user_id, "user_id") if user_id else None
    policy = backup_policies.create(owner, timezone=owner.timezone if owner else "UTC", **body)
    kit.set_message("Backup policy created.")
    return policy


@admin.get(POLICY_PATH, op="get", can=READ_PERMISSION, out=AdminPolicyWithInstances)
def admin_show(policy_id):
    """Get a backup policy with its instances.

    Returns 404 if the policy does not exist.
    """
    return with_instances(backup_policies.get(policy_id), AdminBackupPolicyOut)


@admin.patch(POLICY_PATH, op="update", can=WRITE_PERMISSION, body=BackupPolicyPatch, out=AdminBackupPolicyOut)
def admin_update(body, policy_id):
    """Update a backup policy of the platform or of an account.

    Only the fields you send are changed. Retention applies after its next backup.
    """
    policy = backup_policies.update(backup_policies.get(policy_id), **body)
    kit.set_message("Backup policy updated.")
    return policy


@admin.delete(POLICY_PATH, op="delete", can=WRITE_PERMISSION)
def admin_delete(policy_id):
    """Delete a backup policy.

    Its instances are detached, and locations no longer use it. Its backups stay.
    """
    backup_policies.delete(backup_policies.get(policy_id))
    kit.set_message("Backup policy deleted.")


@admin.post(f"{POLICY_PATH}/attach", op="attach_instance", can=WRITE_PERMISSION, body=PolicyInstanceIn)
@audit_label("Attach to backup policy")
def admin_attach(body, policy_id):
    """Attach an instance to a backup policy.

    Policies of the platform accept instances of any account. Returns 409 `already_attached` if the instance has another
    policy, and 422 under `instance_id` if the policy belongs to another account.
    """
    backup_policies.attach(backup_policies.get(policy_id), get_instance(body["instance_id"]))
    kit.set_message("Instance attached.")


@admin.post(f"{POLICY_PATH}/detach", op="detach_instance", can=WRITE_PERMISSION, body=PolicyInstanceIn)
@audit_label("Detach from backup policy")
def admin_detach(body, policy_id):
    """Detach an instance from a backup policy.

    Its backups stay. Returns 409 `not_attached` if it is not attached to this policy.
    """
    backup_policies.detach(backup_policies.get(policy_id), get_instance(body["instance_id"]))
    kit.set_message("Instance detached.")


@admin.post(f"{POLICY_PATH}/reset-failures", op="reset_failures", can=WRITE_PERMISSION)
@audit_label("Clear failures")
def admin_reset_failures(policy_id):
    """Clear the failure counter of a backup policy.

    A successful backup clears it, too.
    """
    backup_policies.reset_failures(backup_policies.get(policy_id))
    kit.set_message("Failures cleared.")
