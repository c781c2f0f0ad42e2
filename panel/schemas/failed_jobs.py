"""Failed background jobs in the API, in groups (OTH-02)."""

from marshmallow import Schema, fields

from panel.schemas.audit import Moment
from panel.schemas.base import Out, Time, describe


class FailedJobsQuery(Schema):
    since = Moment(**describe("Only failures at or after this time, ISO 8601.", "2026-01-02T03:04:05Z"))


class FailedJobs(Out):
    """Failed jobs with the same kind and cause. Neither their resources nor their messages are in it."""

    queue = fields.String(**describe("Queue of the jobs.", "tasks"))
    job = fields.String(**describe("Kind of the jobs.", "instance_deploy"))
    exception_class = fields.String(**describe("Error class.", "Unreachable"))
    count = fields.Integer(**describe("Number of failures.", 3))
    first_failed_at = Time(**describe("First failure.", "2026-01-02T03:04:05.678Z"))
    last_failed_at = Time(**describe("Last failure.", "2026-01-02T03:04:05.678Z"))


class FailedJobsOut(Out):
    total = fields.Integer(**describe("Total number of failures.", 3))
    groups = fields.List(fields.Nested(FailedJobs), **describe("Failures by job kind and error class, latest first."))
