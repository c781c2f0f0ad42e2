"""Backups of all instances of an account, and of all accounts, also of instances that were destroyed."""

from marshmallow import fields

from api import kit
from panel.core.db import session
from panel.core.errors import PartlyRefused
from panel.models import InstanceBackup
from panel.schemas.base import describe
from panel.schemas.instance_backups import (
    AdminInstanceBackupOut,
    AdminInstanceBackupQuery,
    BackupAncestorOut,
    BackupDeletionOut,
    BackupDeletionRefused,
    BackupIdsIn,
    InstanceBackupOut,
    InstanceBackupQuery,
)
from panel.services import instance_backups
from panel.web.audit_view import audit_label
from panel.workflows import backup_deletion

user = kit.User("backup", __name__, description="Backups")
admin = kit.Admin("backup", __name__, description="Backups")

BACKUP_LIST = kit.build_page_schema(InstanceBackupOut)
ADMIN_BACKUP_LIST = kit.build_admin_page_schema(AdminInstanceBackupOut)
BACKUP_WITH_CHAIN = kit.Done.from_dict(
    {
        "backup": fields.Nested(InstanceBackupOut, **describe("The backup.")),
        "chain": fields.List(
            fields.Nested(BackupAncestorOut), **describe("Backups whose content it reused, nearest first.")
        ),
    },
    name="BackupWithChain",
)()
DELETION_RESPONSE = kit.Done.from_dict(
    {"data": fields.Nested(BackupDeletionOut, **describe("Result for each backup."))}, name="BackupDeletionDone"
)()
REFUSED_ANSWER = {
    "description": "The deletion of some or all backups was refused.",
    "content": {"application/json": {"schema": BackupDeletionRefused}},
}
REFUSED_RESPONSES = {404: REFUSED_ANSWER, 409: REFUSED_ANSWER, 503: REFUSED_ANSWER}


def delete_several(ids, access, *, is_missing_refused, instance_id=None):
    """Delete those of the backups that the access reaches, and return the customers' answer."""
    answer, sentence, status = delete_found(ids, access, is_missing_refused=is_missing_refused, instance_id=instance_id)
    if status != 200:
        raise PartlyRefused(sentence, status=status, extra={"data": answer})
    return {"message": sentence, "data": answer}


def delete_found(ids, access, *, is_missing_refused, instance_id=None):
    query = instance_backups.listing(access).where(InstanceBackup.id.in_(ids))
    if instance_id:
        query = query.where(InstanceBackup.instance_id == instance_id)
    backups = {backup.id: backup for backup in session.scalars(query)}
    return backup_deletion.delete_all(
        ids, backups, actor=kit.get_current_actor(), is_missing_refused=is_missing_refused
    )


@user.get("/backups", op="list", can="instances.view", query=InstanceBackupQuery, out=BACKUP_LIST)
def listing(query):
    """List the backups of all instances.

    Newest first, unless sorted otherwise; also of destroyed instances. Backups of machines that the platform runs for
    you, such as load balancers, are not included.
    """
    return kit.paginate(instance_backups.listing(kit.get_current_access(), **query))


@user.get("/backup/<backup_id>", op="get", can="instances.view", out=BACKUP_WITH_CHAIN)
def show(backup_id):
    """Get a backup.

    `chain` has the backups whose content it reused, the nearest first. It does not need them to be restored.
    """
    backup = instance_backups.get(backup_id, kit.get_current_access())
    return {"message": None, "backup": backup, "chain": instance_backups.get_chain(backup)}


@user.delete("/backup/<backup_id>", op="delete", can="instances.backups", out=kit.build_result_schema())
@audit_label("Delete backup")
def delete(backup_id):
    """Delete a backup.

    It is listed until its storage has confirmed the deletion. Returns 409 `backup_not_deletable` (protected),
    `backup_being_deleted` or `task_running` (not complete yet), 422 `delete_not_dispatched` if nothing was deleted
    because the storage is not available, and 503 `delete_dispatch_unconfirmed` if the outcome is not known.
    """
    backup = instance_backups.get(backup_id, kit.get_current_access())
    backup_deletion.delete(backup, actor=kit.get_current_actor())
    return {"message": "Deletion of the backup requested."}


@user.post("/backups/destroy", op="destroy", can="instances.backups", body=BackupIdsIn, out=DELETION_RESPONSE)
@user.doc(responses=REFUSED_RESPONSES)
@audit_label("Delete backups")
def destroy(body):
    """Delete several backups.

    The response has a result for each backup. The status is 200 if none was refused, otherwise that of the first
    refusal (a later 503 takes precedence); backups that were not refused are deleted. Backups of other accounts are
    ignored.
    """
    return delete_several(body["backups"], kit.get_current_access(), is_missing_refused=False)


@admin.get(
    "/instance-backups",
    op="list",
    can="admin:instances:read",
    query=AdminInstanceBackupQuery,
    out=ADMIN_BACKUP_LIST,
)
def admin_listing(query):
    """List the backups of all users.

    Newest first, unless sorted otherwise; also of destroyed instances. `issue=cleanup_pending` lists those of destroyed
    instances whose removal is not confirmed.
    """
    return kit.paginate(instance_backups.listing(**query))


@admin.post(
    "/instance-backups/destroy", op="destroy", can="admin:instances:write", body=BackupIdsIn, out=BackupDeletionOut
)
@admin.doc(responses=REFUSED_RESPONSES)
@audit_label("Delete backups")
def admin_destroy(body):
    """Delete several backups of any users.

    The response has a result for each backup. The status is 200 if none was refused, otherwise that of the first
    refusal (a later 503 takes precedence); backups that were not refused are deleted. An unknown id has a result with
    status 404 and reason `backup_not_found`.
    """
    answer, sentence, status = delete_found(body["backups"], None, is_missing_refused=True)
    if status != 200:
        raise PartlyRefused(sentence, status=status, extra=answer)
    kit.set_message(sentence)
    return answer
