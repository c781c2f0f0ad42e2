"""Tags, and the results of one action on many instances, in the API."""

import re

from marshmallow import Schema, ValidationError, fields

from panel.core.messages import message
from panel.schemas.base import In, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
TAG_PATTERN = re.compile(r"[a-z0-9][a-z0-9._/-]{0,62}\Z")
INVALID_TAG_MESSAGE = message(
    "Must be 1 to 63 letters, digits, dots, slashes, hyphens and underscores, and begin with a letter or digit."
)


class Tag(fields.String):
    """One tag, converted to lower case."""

    def _deserialize(self, value, attr, data, **kwargs):
        tag = super()._deserialize(value, attr, data, **kwargs).strip().lower()
        if not TAG_PATTERN.match(tag):
            raise ValidationError(INVALID_TAG_MESSAGE)
        return tag


class Tags(fields.Field):
    """A list of tags, or a comma-separated text; sorted, without duplicates."""

    one = Tag()

    def _deserialize(self, value, attr, data, **kwargs):
        tags = value.split(",") if isinstance(value, str) else value
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise ValidationError(message("Must be a list of tags or a comma-separated string."))
        return sorted({self.one.deserialize(tag) for tag in tags if tag.strip()})


class TagsIn(In):
    tags = Tags(
        required=True,
        metadata={
            "description": "The new tags. An empty string or list removes all.",
            "example": "prod,web",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        },
    )


class TagsText(In):
    """The same for pages, where an empty field means no tags."""

    tags = Tags(required=True, allow_none=True)


class BulkLine(Schema):
    sometimes = ("reason",)
    id = fields.String(**describe("Instance id.", EXAMPLE_ID))
    name = fields.String(
        allow_none=True, **describe("Display name; null if the instance does not exist.", "Shop front")
    )
    status = fields.Integer(**describe("HTTP status that a request for this instance alone would have.", 200))
    success = fields.Boolean(**describe("Whether the action was accepted.", True))
    message = fields.String(**describe("Result as a sentence.", "Start requested."))
    reason = fields.String(**describe("Reason code of the refusal.", "suspended"))


class BulkOut(Schema):
    queued = fields.Integer(**describe("Number of instances for which the action was accepted.", 1))
    refused = fields.Integer(**describe("Number of instances for which the action was refused.", 0))
    results = fields.List(fields.Nested(BulkLine), **describe("Result for each instance, in the order of the request."))


class BulkRefused(Schema):
    """The answer when the action was refused for some or all instances."""

    sometimes = ("reason", "data")
    success = fields.Boolean(**describe("Always false.", False))
    message = fields.String(**describe("Result as a sentence.", "Requested for 1 instance, 1 refused."))
    reason = fields.String(**describe("Reason code, if the whole request was refused.", "task_running"))
    data = fields.Nested(BulkOut, **describe("Result for each instance."))
