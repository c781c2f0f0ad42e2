"""Tasks in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Out, PageQuery, Time, describe
from panel.schemas.constants import TASK_STATUSES


class TaskLogOut(Out):
    message = fields.String(**describe("What the task said.", "Creating the disk"))
    at = Time(**describe("When.", "2026-01-02T03:04:05.678Z"))


class TaskOut(Out):
    id = fields.String(**describe("Task id.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))
    kind = fields.String(**describe("What is done.", "instance_deploy"))
    resource_type = fields.String(**describe("The kind of thing it works on.", "instance"))
    resource_id = fields.String(**describe("The thing it works on.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))
    resource_name = fields.String(**describe("That thing's name when the task was made.", "h10000001"))
    instance_id = fields.String(
        allow_none=True, **describe("The instance, for tasks of one.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d")
    )
    status = fields.String(validate=validate.OneOf(TASK_STATUSES), **describe("Where it stands.", "running"))
    progress = fields.Integer(**describe("Percent done, 0 to 100.", 50))
    stage = fields.String(**describe("What it is doing, in words.", "Creating the disk"))
    bytes_done = fields.Integer(allow_none=True, **describe("Bytes moved so far in this stage.", 1048576))
    bytes_total = fields.Integer(allow_none=True, **describe("Bytes to move in this stage.", 20971520))
    error = fields.String(allow_none=True, **describe("Why it failed.", None))
    actor = fields.String(**describe("Who asked.", "ada@example.com"))
    cancellable = fields.Boolean(**describe("Whether it can still be cancelled.", True))
    source_backup_id = fields.String(allow_none=True, **describe("The backup that a restore came from.", None))
    source_backup_at = Time(allow_none=True, **describe("When that backup was taken.", None))
    created_at = Time(**describe("When it was asked for.", "2026-01-02T03:04:05.678Z"))
    started_at = Time(allow_none=True, **describe("When a worker took it.", "2026-01-02T03:04:05.700Z"))
    updated_at = Time(**describe("When it last reported.", "2026-01-02T03:04:06.000Z"))
    finished_at = Time(allow_none=True, **describe("When it ended.", None))


class AdminTaskOut(TaskOut):
    account_id = fields.String(allow_none=True, **describe("Whose resource it is.", None))
    hypervisor_id = fields.String(allow_none=True, **describe("The node it runs on.", None))
    error_detail = fields.String(allow_none=True, **describe("What the node or the panel said, for operators.", None))
    attempt = fields.Integer(**describe("How many workers have tried.", 1))


class TaskQuery(PageQuery):
    status = fields.String(
        validate=validate.OneOf((*TASK_STATUSES, "open")),
        metadata={"description": "Only tasks with this status; `open` means not ended."},
    )
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of the resource's name."})


class AdminTaskQuery(TaskQuery):
    kind = fields.String(
        validate=validate.Length(max=48),
        metadata={"description": "Only tasks of this kind, such as `instance_deploy`."},
    )
    hypervisor_id = fields.String(
        validate=validate.Length(max=36), metadata={"description": "Only tasks on this hypervisor."}
    )
