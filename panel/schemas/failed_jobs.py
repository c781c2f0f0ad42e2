"""Failed background jobs in the API, in groups (specification 4.11)."""

from marshmallow import Schema, fields

from panel.schemas.audit import Moment
from panel.schemas.base import Out, Time, describe


class FailedJobsQuery(Schema):
    since = Moment(**describe("Only what failed at or after this moment, ISO 8601.", "2026-01-02T03:04:05Z"))


class FailedJobs(Out):
    """Failed jobs with the same kind and cause. Neither their resources nor their messages are in it."""

    queue = fields.String(**describe("The queue they came from.", "tasks"))
    job = fields.String(**describe("Their kind.", "instance_deploy"))
    exception_class = fields.String(**describe("The kind of failure.", "Unreachable"))
    count = fields.Integer(**describe("How many failed so.", 3))
    first_failed_at = Time(**describe("When the first of them failed.", "2026-01-02T03:04:05.678Z"))
    last_failed_at = Time(**describe("When the last of them failed.", "2026-01-02T03:04:05.678Z"))


class FailedJobsOut(Out):
    total = fields.Integer(**describe("How many jobs failed.", 3))
    groups = fields.List(
        fields.Nested(FailedJobs), **describe("The same by kind of job and failure, the latest first.")
    )
