"""Sample things in the API."""

from marshmallow import fields

from panel.schemas.base import In, Name, Out, Patch, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"


def make_fields(required):
    return {
        "name": Name(required=required, **describe("Name.", "first")),
        "description": Text(**describe("Description. An empty string clears it.", "For the shop")),
    }


SampleThingIn = In.from_dict(make_fields(required=True), name="SampleThingIn")
SampleThingPatch = Patch.from_dict(make_fields(required=False), name="SampleThingPatch")


class SampleThingOut(Out):
    id = fields.String(**describe("Id of the sample thing.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "first"))
    description = fields.String(**describe("Description, or empty.", "For the shop"))
    # if task
    is_applied = fields.Boolean(**describe("Whether it was applied since its last change.", True))
    # end if
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))
