"""Tasks in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Out, PageQuery, Time, about
from panel.schemas.constants import TASK_STATUSES


class TaskLogOut(Out):
    message = fields.String(**about("What the task said.", "Creating the disk"))
    at = Time(**about("When.", "2026-01-02T03:04:05.678Z"))


class TaskOut(Out):
    id = fields.String(**about("Task id.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))
    kind = fields.String(**about("What is done.", "instance_deploy"))
    resource_type = fields.String(**about("The kind of thing it works on.", "instance"))
    resource_id = fields.String(**about("The thing it works on.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))
    resource_name = fields.String(**about("That thing's name when the task was made.", "h10000001"))
    instance_id = fields.String(
        allow_none=True, **about("The instance, for tasks of one.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d")
    )
    status = fields.String(validate=validate.OneOf(TASK_STATUSES), **about("Where it stands.", "running"))
    progress = fields.Integer(**about("Percent done, 0 to 100.", 50))
    stage = fields.String(**about("What it is doing, in words.", "Creating the disk"))
    bytes_done = fields.Integer(allow_none=True, **about("Bytes moved so far in this stage.", 1048576))
    bytes_total = fields.Integer(allow_none=True, **about("Bytes to move in this stage.", 20971520))
    error = fields.String(allow_none=True, **about("Why it failed.", None))
    actor = fields.String(**about("Who asked.", "ada@example.com"))
    cancellable = fields.Boolean(**about("Whether it can still be cancelled.", True))
    source_backup_id = fields.String(allow_none=True, **about("The backup that a restore came from.", None))
    source_backup_at = Time(allow_none=True, **about("When that backup was taken.", None))
    created_at = Time(**about("When it was asked for.", "2026-01-02T03:04:05.678Z"))
    started_at = Time(allow_none=True, **about("When a worker took it.", "2026-01-02T03:04:05.700Z"))
    updated_at = Time(**about("When it last reported.", "2026-01-02T03:04:06.000Z"))
    finished_at = Time(allow_none=True, **about("When it ended.", None))


class AdminTaskOut(TaskOut):
    account_id = fields.String(allow_none=True, **about("Whose resource it is.", None))
    hypervisor_id = fields.String(allow_none=True, **about("The node it runs on.", None))
    error_detail = fields.String(allow_none=True, **about("What the node or the panel said, for operators.", None))
    attempt = fields.Integer(**about("How many workers have tried.", 1))


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
