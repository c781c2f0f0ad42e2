"""What a hypervisor and the panel do not agree about, on the wire."""

from marshmallow import fields, validate

from panel.schemas.base import In, Out, Text, Time, about
from panel.schemas.catalog import ID
from panel.schemas.words import TASK_STATUSES


class OrphanOut(Out):
    id = fields.String(**about("The machine's UUID.", ID))
    name = fields.String(**about("Its name on the hypervisor.", "old-web"))


class DiscoveryOut(Out):
    task_id = fields.String(**about("The task that looks.", ID))
    status = fields.String(validate=validate.OneOf(TASK_STATUSES), **about("Where it stands.", "completed"))
    error = fields.String(allow_none=True, **about("Why it failed.", None))
    finished_at = Time(allow_none=True, **about("When it ended.", "2026-01-02T03:04:05.678Z"))
    unknown = fields.List(fields.Nested(OrphanOut), **about("Machines on the hypervisor that no instance knows."))
    missing = fields.List(fields.Nested(OrphanOut), **about("Instances whose machine the hypervisor does not have."))


class Typed(In):
    name = Text(required=True, **about("The machine's name, to confirm.", "old-web"))


class Asked(Out):
    task_id = fields.String(**about("The task that does it.", ID))
