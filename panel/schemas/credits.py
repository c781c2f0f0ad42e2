"""Ledgers in the API."""

import re
from decimal import Decimal

from marshmallow import ValidationError, fields, validate

from panel.core.messages import message
from panel.schemas.base import In, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

MAX_AMOUNT = Decimal(10**7)
AMOUNT_PATTERN = re.compile(r"-?[0-9]{1,8}(\.[0-9]{1,6})?", re.ASCII)


class Amount(fields.Decimal):
    """Money in whole cents, as a JSON number."""

    def _deserialize(self, value, attr, data, **kwargs):
        if not isinstance(value, int | float) or isinstance(value, bool) or not AMOUNT_PATTERN.fullmatch(str(value)):
            raise ValidationError(message("Must be a number such as 12.50."))
        amount = Decimal(str(value))
        if amount != amount.quantize(Decimal("0.01")):
            raise ValidationError(message("Must be whole cents."))
        if abs(amount) > MAX_AMOUNT:
            raise ValidationError(message("Must not be more than {maximum}.", maximum=MAX_AMOUNT))
        return amount


def description_field(**options):
    return Text(**options, **describe("Description shown to the customer.", "Bank transfer of 2 November"))


class CreditIn(In):
    amount = Amount(required=True, **describe("Amount in whole cents. Only an `adjustment` can be negative.", 25.5))
    kind = fields.String(
        load_default="credit",
        validate=validate.OneOf(("credit", "adjustment", "refund")),
        **describe(
            "`credit`: a payment. `adjustment`: a correction in either direction. `refund`: a refund.", "credit"
        ),
    )
    description = description_field(load_default="")
    reference = Text(
        load_default=None, allow_none=True, **describe("External reference, such as an invoice number.", "INV-1042")
    )


class AdminCreditIn(CreditIn):
    user_id = Text(maximum=36, required=True, **describe("User id.", EXAMPLE_ID))


class CreditPatch(Patch):
    amount = Amount(required=True, **describe("The corrected amount. The difference is booked as an adjustment.", 20))
    description = description_field(load_default="")


class CreditOut(Out):
    id = fields.String(**describe("Id of the entry.", EXAMPLE_ID))
    user_id = fields.String(attribute="account_id", **describe("User id.", EXAMPLE_ID))
    email = fields.String(**describe("Email address of the customer at the time of the entry.", "ada@example.com"))
    kind = fields.String(**describe("`credit`, `usage`, `adjustment` or `refund`.", "credit"))
    amount = fields.Float(**describe("Amount added to the balance; negative for usage.", 25.5))
    balance_after = fields.Float(**describe("Balance after this entry.", 31.2))
    description = fields.String(**describe("Description.", "Bank transfer of 2 November"))
    reference = fields.String(allow_none=True, **describe("External reference.", "INV-1042"))
    month = fields.String(allow_none=True, **describe("Month of the charged usage.", None))
    corrects_id = fields.String(allow_none=True, **describe("The entry that it corrects or reverses.", None))
    actor = fields.String(**describe("Who created the entry.", "operator@example.com"))
    created_at = Time(**describe("When it was created.", "2026-11-02T03:04:05.678Z"))


class CreditQuery(PageQuery):
    user_id = fields.String(validate=validate.Length(max=36), metadata={"description": "Only entries of this user."})
