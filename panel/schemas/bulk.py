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
            raise ValidationError(message("Must be a list of tags, or a text with commas between them."))
        return sorted({self.one.deserialize(tag) for tag in tags if tag.strip()})


class TagsIn(In):
    tags = Tags(
        required=True,
        metadata={
            "description": "The tags that it has from now on. An empty text or list removes all.",
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
    name = fields.String(allow_none=True, **describe("Its label; null when there is no such instance.", "Shop front"))
    status = fields.Integer(**describe("The HTTP status that the action alone would have had.", 200))
    success = fields.Boolean(**describe("Whether it was not refused.", True))
    message = fields.String(**describe("What became of it.", "It starts."))
    reason = fields.String(**describe("Why it was refused, as a word.", "suspended"))


class BulkOut(Schema):
    queued = fields.Integer(**describe("How many were not refused.", 1))
    refused = fields.Integer(**describe("How many were.", 0))
    results = fields.List(fields.Nested(BulkLine), **describe("A line for each instance, in the order of the request."))


class BulkRefused(Schema):
    """The answer when the action was refused for some or all instances."""

    sometimes = ("reason", "data")
    success = fields.Boolean(**describe("Always false.", False))
    message = fields.String(**describe("What became of it, in a sentence.", "1 instance done, 1 refused."))
    reason = fields.String(**describe("Why all of it was refused, as a word.", "task_running"))
    data = fields.Nested(BulkOut, **describe("What became of each."))
