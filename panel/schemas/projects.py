"""Projects in the API."""

from marshmallow import Schema, fields, validate

from panel.core.messages import message
from panel.schemas.base import In, Name, Out, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

RESOURCE_KINDS = ("instance", "volume")
"""Types of resources that can be in a project."""


def name_field(**options):
    rules = [
        validate.Regexp(
            r"(?i)\A[a-z0-9 ._-]+\Z", error=message("Only letters, digits, spaces, dots, hyphens and underscores.")
        )
    ]
    return Name(maximum=64, rules=rules, **options, **describe("Name, unique in the account.", "Web shop"))


def description_field():
    return Text(allow_none=True, **describe("Description; null for none.", "Everything behind shop.example.com"))


def color_field():
    rule = validate.Regexp(r"\A#[0-9a-fA-F]{6}\Z", error=message("Must be a color such as #1c5fd4."))
    return fields.String(allow_none=True, validate=rule, **describe("Color; null for none.", "#1c5fd4"))


def kind_field():
    rule = validate.OneOf(RESOURCE_KINDS)
    return fields.String(required=True, validate=rule, **describe("Resource type: `instance` or `volume`.", "instance"))


class ProjectIn(In):
    name = name_field(required=True)
    description = description_field()
    color = color_field()


class ProjectPatch(Patch):
    name = name_field()
    description = description_field()
    color = color_field()


class ProjectOut(Out):
    id = fields.String(**describe("Project id.", EXAMPLE_ID))
    name = fields.String(**describe("Display name.", "Web shop"))
    description = fields.String(allow_none=True, **describe("Description.", "Everything behind shop.example.com"))
    color = fields.String(allow_none=True, **describe("Color.", "#1c5fd4"))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class ProjectRow(ProjectOut):
    instances = fields.Integer(**describe("Number of instances.", 3))
    volumes = fields.Integer(**describe("Number of volumes.", 1))


def project_id_field():
    return Text(
        maximum=36,
        required=True,
        allow_none=True,
        **describe("Project id; null removes the resource from its project.", EXAMPLE_ID),
    )


class Resource(In):
    resource_type = kind_field()
    resource_id = Text(maximum=36, required=True, **describe("Resource id.", EXAMPLE_ID))


class Assignment(Resource):
    project_id = project_id_field()


class Assignments(In):
    resources = fields.List(
        fields.Nested(Resource),
        required=True,
        validate=validate.Length(1, 100),
        **describe("Resources, 1 to 100."),
    )
    project_id = project_id_field()


class ResourceOut(Schema):
    resource_type = fields.String(**describe("Resource type: `instance` or `volume`.", "instance"))
    resource_id = fields.String(attribute="id", **describe("Resource id.", EXAMPLE_ID))
    name = fields.String(**describe("Display name.", "Shop front"))
    project_id = fields.String(allow_none=True, **describe("Id of its project.", None))
