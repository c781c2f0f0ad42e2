"""Snapshots of instances in the API, with the field names of the public clients."""

from marshmallow import fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Out, Text, describe

SNAPSHOT_NAME_RULE = validate.Regexp(
    r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z",
    error=message("Must be 1 to 64 letters, digits, hyphens, dots or underscores, and begin with a letter or digit."),
)
SNAPSHOT_STATUSES = ("creating", "available", "restoring", "deleting", "failed")


class SnapshotOut(Out):
    id = fields.String(**describe("Snapshot id.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))
    name = fields.String(**describe("Name, unique in the instance.", "before-upgrade"))
    description = fields.String(**describe("Free text.", "Before the upgrade to 13"))
    snaptime = fields.Integer(**describe("When it was created, as a Unix timestamp.", 1767323045))
    vmstate = fields.Boolean(**describe("Whether it includes the memory.", False))
    parent = fields.String(allow_none=True, **describe("Parent snapshot.", None))
    status = fields.String(validate=validate.OneOf(SNAPSHOT_STATUSES), **describe("Current status.", "available"))
    error = fields.String(allow_none=True, **describe("Why the last attempt failed.", None))


class SnapName(In):
    snapname = fields.String(
        required=True, validate=SNAPSHOT_NAME_RULE, **describe("The snapshot's name.", "before-upgrade")
    )


class SnapshotIn(SnapName):
    vmstate = Bool(
        load_default=False,
        **describe("Whether to include the memory: a rollback then resumes the running system.", False),
    )
    description = Text(
        maximum=1024, lines=True, load_default="", allow_none=True, **describe("Free text.", "Before 13")
    )


class RollbackIn(SnapName):
    start = Bool(
        load_default=None,
        allow_none=True,
        **describe("Whether to start the instance afterwards. Defaults to its previous power state.", True),
    )
