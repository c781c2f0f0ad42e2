"""Keys of the sandbox API in the user API."""

from marshmallow import fields

from panel.schemas.base import In, Name, Out, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
EXAMPLE_VALUE = "e2b_3f9c0a…"
KEY_STATUSES = ("Active", "Revoked")


class MicrovmApiKeyIn(In):
    name = Name(maximum=64, required=True, **describe("To tell keys apart.", "Agents of the shop"))


class MicrovmApiKeyOut(Out):
    id = fields.String(**describe("Key id.", EXAMPLE_ID))
    name = fields.String(**describe("The label.", "Agents of the shop"))
    prefix = fields.String(**describe("The first 8 characters of the value.", "e2b_3f9c"))
    status = fields.String(**describe(f"One of: {', '.join(KEY_STATUSES)}. A revoked key never works again.", "Active"))
    last_used_at = Time(
        allow_none=True, **describe("The last authenticated request. Null: never.", "2026-01-02T03:04:05.678Z")
    )
    last_used_ip = fields.String(allow_none=True, **describe("The address of that request.", "203.0.113.9"))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))
