"""Copies of backups in the admin API."""

from marshmallow import fields, validate

from panel.schemas.base import Out, PageQuery, Text, Time, describe
from panel.schemas.instance_backups import COPY_STATUSES, EXAMPLE_ID, EXAMPLE_TIME, BackupCopyStateOut


class BackupCopyOut(BackupCopyStateOut):
    id = fields.String(**describe("Copy id.", EXAMPLE_ID))
    backup_id = fields.String(**describe("The backup, which may have been deleted.", EXAMPLE_ID))
    backup_name = fields.String(**describe("Name of the backup.", "nightly"))
    backup_at = Time(**describe("When the backup was requested.", EXAMPLE_TIME))
    backup_deleted = fields.Boolean(**describe("Whether the copy is all that is left of the backup.", False))
    account_id = fields.String(**describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("Email address of the owner.", "ada@example.com"))
    backup_storage_id = fields.String(attribute="destination_id", **describe("The second destination.", EXAMPLE_ID))
    error = fields.String(allow_none=True, **describe("Why it failed.", None))
    retention_days = fields.Integer(**describe("Days for which it cannot be deleted.", 30))
    size = fields.Integer(**describe("Bytes that it added to the second destination.", 5242880))
    created_at = Time(**describe("When it was requested.", EXAMPLE_TIME))


class BackupCopyQuery(PageQuery):
    status = fields.String(validate=validate.OneOf(COPY_STATUSES), **describe("Only this status.", "failed"))
    backup_storage_id = Text(maximum=36, **describe("Only copies in this destination.", EXAMPLE_ID))
    account_id = Text(maximum=36, **describe("Only copies of this account's backups.", EXAMPLE_ID))


class RecoveredBackup(Out):
    backup_id = fields.String(attribute="id", **describe("The backup, as before its deletion.", EXAMPLE_ID))
