"""Requests and responses of the billing API."""

from typing import cast

from marshmallow import ValidationError, fields, validate, validates_schema

from panel.core.messages import message
from panel.schemas.accounts import AccountIn, Email
from panel.schemas.base import Bool, Hostname, In, Int, Name, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.instances import AdminInstanceOut, DeployIn, InstanceIn, validate_time_zone

SYSTEM_FIELDS = ("password", "cloudcfg", "timezone", "ssh_keys", "ssh_key_id", "user_scripts")
"""Fields of an order that concern the operating system."""


def external_id_field(**options):
    return Text(minimum=1, **options, **describe("Id of the user in the billing system. Unique.", "client-1042"))


class CustomerOut(Out):
    id = fields.String(**describe("User id.", EXAMPLE_ID))
    external_id = fields.String(allow_none=True, **describe("Id of the user in the billing system.", "client-1042"))
    email = fields.String(**describe("Email address, unique.", "ada@example.com"))
    first_name = fields.String(**describe("First name.", "Ada"))
    last_name = fields.String(**describe("Last name.", "Lovelace"))
    company_name = fields.String(allow_none=True, **describe("Company.", None))
    timezone = fields.String(**describe("Time zone for displayed times.", "UTC"))
    balance = fields.Float(**describe("Remaining credit.", 31.2))
    self_provisioning = fields.Boolean(**describe("Unbilled provisioning: the panel never charges the account.", False))
    suspended_at = Time(allow_none=True, **describe("When the account was suspended.", None))
    suspended_reason = fields.String(
        allow_none=True, **describe("Reason of the suspension, visible to the user.", None)
    )
    last_login_at = Time(allow_none=True, **describe("When the user last signed in.", "2026-01-02T03:04:05.678Z"))
    instances = fields.Integer(**describe("Number of instances.", 3))
    created_at = Time(**describe("When the account was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class CustomerQuery(PageQuery):
    external_id = fields.String(validate=validate.Length(max=255), metadata={"description": "Exact match."})
    email = fields.String(validate=validate.Length(max=255), metadata={"description": "Exact match."})


class CustomerIn(AccountIn):
    external_id = external_id_field(required=True)
    self_provisioning = Bool(**describe("Unbilled provisioning: the panel never charges the account.", True))


class CustomerPatch(Patch):
    external_id = external_id_field()
    email = Email(**describe("Email address, unique.", "ada@example.com"))
    first_name = Name(minimum=0, maximum=100, **describe("First name.", "Ada"))
    last_name = Name(minimum=0, maximum=100, **describe("Last name.", "Lovelace"))
    company_name = Name(minimum=0, allow_none=True, **describe("Company.", None))
    timezone = fields.String(validate=validate_time_zone, **describe("Time zone for displayed times.", "Europe/Berlin"))
    self_provisioning = Bool(**describe("Unbilled provisioning: the panel never charges the account.", True))


class SuspendIn(In):
    reason = Text(
        load_default=None,
        allow_none=True,
        **describe("Reason of the suspension, visible to the user.", "Invoice INV-1042 is overdue."),
    )


class SsoIn(In):
    expires_in = Int(60, 600, load_default=60, **describe("Seconds until the link expires, 60 to 600.", 60))


class SsoOut(Out):
    url = fields.String(**describe("URL for the browser. It works once.", "https://panel.example.com/sso/kX2v…"))
    expires_at = Time(**describe("Expiry of the link.", "2026-01-02T03:05:05.678Z"))


class OrderIn(DeployIn, InstanceIn):
    """An instance and, when an image is named, its operating system."""

    user_id = Text(maximum=36, required=True, **describe("The owner.", EXAMPLE_ID))
    image_id = Text(
        maximum=36,
        load_default=None,
        **describe("Image to deploy immediately. Without it, nothing is deployed.", EXAMPLE_ID),
    )
    hostname = cast(Hostname, InstanceIn().fields["hostname"])

    @validates_schema
    def require_image_for_system(self, data, **_):
        if data.get("image_id") is None and any(data.get(name) for name in SYSTEM_FIELDS):
            raise ValidationError(
                message("Required to set a password, keys, a configuration or a time zone."), "image_id"
            )


class OrderOut(Out):
    instance_id = fields.String(**describe("The new instance.", EXAMPLE_ID))
    task_id = fields.String(allow_none=True, **describe("The deployment task; null if no image was given.", EXAMPLE_ID))
    password = fields.String(
        allow_none=True, **describe("Root password, if one was generated. Shown only once.", "kX2v…")
    )


class RentedInstanceOut(AdminInstanceOut):
    """Everything about an instance, for billing systems."""

    billing_mode = fields.String(
        **describe("Who charges for it: `external` (the billing system) or `cloud_service` (the panel).", "external")
    )


class TerminateIn(In):
    delete_backups = Bool(
        load_default=False,
        **describe("Whether to delete its backups as well, except protected ones, once it is destroyed.", False),
    )
