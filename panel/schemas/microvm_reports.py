"""Logs and load of micro VMs in the API."""

from marshmallow import Schema, fields, validate

from panel.schemas.base import Out, QueryInt, Text, Time, describe
from panel.schemas.microvms import EXAMPLE_TIME

LOG_LEVELS = ("debug", "info", "warn", "error")
MAX_LOG_ROWS, DEFAULT_LOG_ROWS = 1000, 200


class MicrovmLogQuery(Schema):
    level = fields.String(
        validate=validate.OneOf(LOG_LEVELS), **describe("Only entries of this level and more severe ones.", "warn")
    )
    search = Text(maximum=255, **describe("Part of the message.", "Process ended"))
    limit = QueryInt(
        load_default=DEFAULT_LOG_ROWS,
        validate=validate.Range(1, MAX_LOG_ROWS),
        **describe("How many entries at most, the latest ones.", 100),
    )


class MicrovmLogEntryOut(Out):
    at = Time(**describe("When it happened.", EXAMPLE_TIME))
    level = fields.String(validate=validate.OneOf(LOG_LEVELS), **describe("How severe it is.", "info"))
    logger = fields.String(**describe("The part of the micro VM that logged it.", "process"))
    message = fields.String(**describe("What happened.", "Process ended"))
    details = fields.Dict(
        attribute="fields",
        keys=fields.String(),
        values=fields.String(),
        **describe("Details, by name.", {"command": "/bin/true", "pid": "301", "exit_code": "0"}),
    )


class MicrovmGuestUsageOut(Out):
    at = Time(attribute="measured_at", **describe("When it was measured.", EXAMPLE_TIME))
    cpu_percent = fields.Float(**describe("Percent of all its cores.", 12.5))
    memory_used = fields.Integer(**describe("Bytes of memory that programs and the kernel use.", 104857600))
    memory_total = fields.Integer(**describe("Bytes of memory.", 536870912))
    memory_cache = fields.Integer(**describe("Bytes of memory that hold copies of files.", 20971520))
    disk_used = fields.Integer(**describe("Bytes in use on its disk.", 209715200))
    disk_total = fields.Integer(**describe("Bytes of its disk.", 2147483648))
