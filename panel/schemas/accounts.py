"""Users on the wire, as operators see them."""

from marshmallow import fields, validate

from panel.schemas.base import In, Out, PageQuery, Text, Time, about
from panel.schemas.catalog import ID
from panel.schemas.instances import known_zone


class Email(Text):
    def __init__(self, **options):
        super().__init__(most=255, rules=[validate.Email(error="Must be an email address.")], **options)


class AccountOut(Out):
    id = fields.String(**about("User id.", ID))
    email = fields.String(**about("Email address, unique.", "ada@example.com"))
    first_name = fields.String(**about("First name.", "Ada"))
    last_name = fields.String(**about("Last name.", "Lovelace"))
    company_name = fields.String(allow_none=True, **about("Company.", None))
    timezone = fields.String(**about("Time zone in which times are shown.", "UTC"))
    is_admin = fields.Boolean(**about("Whether the person runs the platform.", False))
    suspended_at = Time(allow_none=True, **about("Since when the account is suspended.", None))
    last_login_at = Time(allow_none=True, **about("When the person last signed in.", "2026-01-02T03:04:05.678Z"))
    instances = fields.Integer(**about("Instances the person has.", 3))
    created_at = Time(**about("When the account was made.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**about("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AccountIn(In):
    email = Email(required=True, **about("Email address, unique.", "ada@example.com"))
    password = Text(
        most=128,
        least=8,
        load_default=None,
        allow_none=True,
        **about("Without one the person cannot sign in on the pages yet.", "correct horse battery"),
    )
    first_name = Text(most=100, **about("First name.", "Ada"))
    last_name = Text(most=100, **about("Last name.", "Lovelace"))
    company_name = Text(allow_none=True, **about("Company.", None))
    timezone = fields.String(
        validate=known_zone,
        **about("Time zone in which times are shown.", "Europe/Berlin"),
    )


class AccountQuery(PageQuery):
    search = fields.String(
        validate=validate.Length(max=255), metadata={"description": "Part of a name, a company or an email address."}
    )
