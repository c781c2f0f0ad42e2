"""The log of addresses, in the admin API."""

from marshmallow import fields, validate

from panel.schemas.audit import Moment
from panel.schemas.base import Out, PageQuery, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"


class AddressLogQuery(PageQuery):
    ip = fields.String(validate=validate.Length(1, 49), metadata={"description": "Only this address or prefix."})
    instance_id = fields.String(validate=validate.Length(max=36), metadata={"description": "Only this instance."})
    user_id = fields.String(validate=validate.Length(max=36), metadata={"description": "Only this customer."})
    at = Moment(metadata={"description": "Only addresses that were assigned at this time (ISO 8601)."})


class AddressLogEntryOut(Out):
    id = fields.String(**describe("Id of the entry.", EXAMPLE_ID))
    ip = fields.String(**describe("The address, or the prefix.", "203.0.113.10"))
    instance_id = fields.String(**describe("Instance that had it. It may be destroyed by now.", EXAMPLE_ID))
    instance_name = fields.String(**describe("Display name of the instance at that time.", "Shop front"))
    user_id = fields.String(
        attribute="account_id",
        allow_none=True,
        **describe("Customer of the instance; null if the account was deleted.", EXAMPLE_ID),
    )
    email = fields.String(**describe("Email address of the customer at that time.", "ada@example.com"))
    assigned_at = Time(**describe("When it was assigned to the instance.", EXAMPLE_TIME))
    released_at = Time(allow_none=True, **describe("When it was released; null while the instance has it.", None))
