"""Tasks in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Out, PageQuery, Time, describe
from panel.schemas.constants import TASK_STATUSES


class TaskLogOut(Out):
    message = fields.String(**describe("Log line.", "Creating the disk"))
    at = Time(**describe("Time of the log line.", "2026-01-02T03:04:05.678Z"))


class TaskOut(Out):
    id = fields.String(**describe("Task id.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))
    kind = fields.String(**describe("Kind of the task.", "instance_deploy"))
    resource_type = fields.String(**describe("Type of the resource.", "instance"))
    resource_id = fields.String(**describe("Id of the resource.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))
    resource_name = fields.String(**describe("Name of the resource when the task was created.", "h10000001"))
    instance_id = fields.String(
        allow_none=True, **describe("Instance id, for tasks of an instance.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d")
    )
    status = fields.String(validate=validate.OneOf(TASK_STATUSES), **describe("Current status.", "running"))
    progress = fields.Integer(**describe("Percent done, 0 to 100.", 50))
    stage = fields.String(**describe("Current stage.", "Creating the disk"))
    bytes_done = fields.Integer(allow_none=True, **describe("Bytes transferred so far in this stage.", 1048576))
    bytes_total = fields.Integer(allow_none=True, **describe("Bytes to transfer in this stage.", 20971520))
    bytes_per_second = fields.Integer(allow_none=True, **describe("Rate of this stage so far.", 10485760))
    seconds_left = fields.Integer(
        allow_none=True, **describe("Seconds until the end of this stage at that rate; null if it is unknown.", 42)
    )
    error = fields.String(allow_none=True, **describe("Error message.", None))
    actor = fields.String(**describe("Who requested the task.", "ada@example.com"))
    cancellable = fields.Boolean(**describe("Whether it can still be cancelled.", True))
    source_backup_id = fields.String(
        attribute="own_source_backup_id",
        allow_none=True,
        **describe("The restored backup; null if it belongs to another account.", None),
    )
    source_backup_at = Time(
        attribute="own_source_backup_at", allow_none=True, **describe("When that backup was created.", None)
    )
    created_at = Time(**describe("When it was requested.", "2026-01-02T03:04:05.678Z"))
    started_at = Time(allow_none=True, **describe("When it was started.", "2026-01-02T03:04:05.700Z"))
    updated_at = Time(**describe("Time of the last progress report.", "2026-01-02T03:04:06.000Z"))
    finished_at = Time(allow_none=True, **describe("When it ended.", None))


class OperatorTaskOut(TaskOut):
    """A task of an instance, for operators."""

    source_backup_id = fields.String(allow_none=True, **describe("The restored backup.", None))
    source_backup_at = Time(allow_none=True, **describe("When that backup was created.", None))


class AdminTaskOut(OperatorTaskOut):
    account_id = fields.String(allow_none=True, **describe("Owner of the resource.", None))
    hypervisor_id = fields.String(allow_none=True, **describe("The hypervisor.", None))
    error_detail = fields.String(allow_none=True, **describe("Technical details for operators.", None))
    attempt = fields.Integer(**describe("Number of attempts.", 1))


class TaskQuery(PageQuery):
    status = fields.String(
        validate=validate.OneOf((*TASK_STATUSES, "open")),
        metadata={"description": "Only tasks with this status; `open` matches all tasks that have not ended."},
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
