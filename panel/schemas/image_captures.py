"""Customers' captured images in the API."""

from marshmallow import ValidationError, fields, validate, validates_schema

from panel.core.messages import message
from panel.schemas.base import In, Name, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID, ImageOut

TRUE_VALUES, FALSE_VALUES = (True, 1, "1", "true"), (False, 0, "0", "false")


class Truth(fields.Boolean):
    """A boolean in the spellings of different clients: true, 1, "1", "true", and their opposites."""

    def _deserialize(self, value, attr, data, **kwargs):
        if isinstance(value, bool | int | str):
            if value in TRUE_VALUES:
                return True
            if value in FALSE_VALUES:
                return False
        raise ValidationError(message("Must be true or false."))


class OwnImageOut(ImageOut):
    status = fields.String(**describe("`creating`, `available` or `error`.", "available"))
    instance_id = fields.String(allow_none=True, **describe("The source instance.", EXAMPLE_ID))
    created_at = Time(**describe("When it was requested.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class CaptureIn(In):
    instance_id = Text(maximum=36, **describe("The source instance. It can be running.", EXAMPLE_ID))
    backup_id = Text(maximum=36, **describe("A complete backup, instead of `instance_id`.", EXAMPLE_ID))
    name = Name(required=True, **describe("Name.", "Shop front, before the sale"))
    cloudinit = Truth(**describe("Whether the image supports cloud-init. Defaults to the value of the source.", True))
    type = fields.String(
        validate=validate.OneOf(["linux", "windows", "other"]),
        **describe("Operating system type. Defaults to the value of the source.", "linux"),
    )

    @validates_schema
    def ensure_one_source(self, data, **kwargs):
        if self.only is None and ("instance_id" in data) == ("backup_id" in data):
            raise ValidationError(message("Send either instance_id or backup_id."), "instance_id")


class ImageRename(Patch):
    name = Name(**describe("Name.", "Shop front, before the sale"))
