"""Certificates in the API. Private keys are accepted and never returned."""

import re

from marshmallow import ValidationError, fields, validate, validates_schema

from panel.core.messages import message
from panel.schemas.base import Hostname, In, Name, Out, PageQuery, Patch, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
CERTIFICATE_TYPES = ("manual", "letsencrypt")
CERTIFICATE_STATUSES = ("active", "expiring", "expired", "pending", "failed")
EXAMPLE_PEM = "-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n"
EXAMPLE_KEY = "-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----\n"
EXAMPLE_TIME = "2026-01-02T03:04:05.000Z"
DOMAIN_LABEL_PATTERN = re.compile(r"[a-z0-9-]+")
MAX_DOMAINS = 100
EXAMPLE_DOMAINS = ["shop.example.com", "www.example.com"]


class Domain(Hostname):
    """A host name that an authority can validate: in lower case, without a final dot."""

    def _deserialize(self, value, attr, data, **kwargs):
        if isinstance(value, str) and value.startswith("*."):
            raise ValidationError(
                message("Wildcards are not supported, because domains are validated over HTTP. List each domain.")
            )
        name = super()._deserialize(value, attr, data, **kwargs).lower().removesuffix(".")
        labels = name.split(".")
        if len(labels) < 2 or labels[-1].isdigit():
            raise ValidationError(message("Must be a full domain name, like shop.example.com."))
        if not all(DOMAIN_LABEL_PATTERN.fullmatch(label) for label in labels):
            raise ValidationError(message("Certificate authorities do not accept names with underscores."))
        return name


class CertificateRow(Out):
    id = fields.String(**describe("Certificate id.", EXAMPLE_ID))
    name = fields.String(**describe("Display name.", "shop.example.com"))
    type = fields.String(
        validate=validate.OneOf(CERTIFICATE_TYPES),
        **describe("`manual`: uploaded. `letsencrypt`: ordered and renewed by the panel.", "letsencrypt"),
    )
    status = fields.String(
        validate=validate.OneOf(CERTIFICATE_STATUSES),
        **describe(
            "`active`; `expiring`: expires within 30 days; `expired`. Before the first issue: `pending`"
            " while it is ordered, `failed` if the order failed.",
            "active",
        ),
    )
    domains = fields.List(fields.String(), **describe("Domains of the certificate.", EXAMPLE_DOMAINS))
    issuer = fields.String(allow_none=True, **describe("Issuer.", "CN=R11,O=Let's Encrypt,C=US"))
    fingerprint = fields.String(allow_none=True, **describe("SHA-256 fingerprint.", ":".join(["9F"] * 32)))
    key_type = fields.String(allow_none=True, **describe("Key type.", "EC P-256"))
    not_before = Time(allow_none=True, **describe("Start of validity.", EXAMPLE_TIME))
    not_after = Time(allow_none=True, **describe("Expiry.", EXAMPLE_TIME))
    days_left = fields.Integer(allow_none=True, **describe("Full days until it expires; 0 if it has expired.", 88))
    ordering = fields.Boolean(
        **describe("Whether an order is in progress. The current certificate stays in use.", False)
    )
    task_id = fields.String(allow_none=True, **describe("The task of the latest order.", EXAMPLE_ID))
    error = fields.String(allow_none=True, **describe("Error of the latest order, as reported by the authority.", None))
    error_at = Time(allow_none=True, **describe("When the latest order failed.", None))
    renews_at = Time(
        attribute="next_attempt_at",
        allow_none=True,
        **describe("When it is renewed automatically.", EXAMPLE_TIME),
    )
    created_at = Time(**describe("When it was added.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class CertificateOut(CertificateRow):
    certificate = fields.String(allow_none=True, **describe("The certificate as it was sent, PEM.", EXAMPLE_PEM))
    chain = fields.String(allow_none=True, **describe("Intermediate certificates, PEM.", EXAMPLE_PEM))


class CertificateQuery(PageQuery):
    search = Text(**describe("Part of the name or of a domain.", "example.com"))
    status = fields.String(
        validate=validate.OneOf(CERTIFICATE_STATUSES), **describe("Only certificates with this status.", "expiring")
    )
    type = fields.String(
        validate=validate.OneOf(CERTIFICATE_TYPES), **describe("Only certificates of this type.", "letsencrypt")
    )
    sort = fields.String(
        load_default="created_at",
        validate=validate.OneOf(("created_at", "name", "not_after")),
        **describe("Sort field.", "not_after"),
    )
    dir = fields.String(
        load_default="desc", validate=validate.OneOf(("asc", "desc")), **describe("Sort direction.", "asc")
    )


def name_field():
    return Text(minimum=1, **describe("Name. Defaults to the first domain.", "shop.example.com"))


def certificate_field(**options):
    return Text(
        lines=True,
        minimum=1,
        maximum=65536,
        **options,
        **describe(
            "The certificate, PEM. Its key must be RSA with at least 2048 bits, or ECDSA P-256, P-384 or P-521.",
            EXAMPLE_PEM,
        ),
    )


def chain_field():
    return Text(
        lines=True,
        maximum=65536,
        allow_none=True,
        **describe(
            "Intermediate certificates, PEM: the issuer of the certificate first, then its issuer, and so on.",
            EXAMPLE_PEM,
        ),
    )


def private_key_field(**options):
    return Text(
        lines=True,
        minimum=1,
        maximum=16384,
        load_only=True,
        **options,
        **describe("Private key, PEM, without a passphrase. It is stored encrypted and never returned.", EXAMPLE_KEY),
    )


class CertificateIn(In):
    type = fields.String(
        load_default="manual",
        validate=validate.OneOf(CERTIFICATE_TYPES),
        **describe(
            "`manual`: upload certificate and key. `letsencrypt`: the panel orders a certificate for `domains`.",
            "letsencrypt",
        ),
    )
    name = name_field()
    certificate = certificate_field()
    chain = chain_field()
    private_key = private_key_field()
    domains = fields.List(
        Domain(),
        validate=validate.Length(1, MAX_DOMAINS),
        **describe("For `letsencrypt`: the domains, which must point at the panel. No wildcards.", EXAMPLE_DOMAINS),
    )

    @validates_schema(skip_on_field_errors=True)
    def validate_fields_of_type(self, data, **_):
        """Check that the fields fit the type."""
        is_ordered = data["type"] == "letsencrypt"
        required_fields = {"domains"} if is_ordered else {"certificate", "private_key"}
        foreign_fields = {"certificate", "chain", "private_key"} if is_ordered else {"domains"}
        errors = {field: [message("Missing data for required field.")] for field in required_fields - data.keys()}
        errors |= {
            field: [message("Not allowed for type {type}.", type=data["type"])]
            for field in foreign_fields & data.keys()
        }
        if len(set(data.get("domains", ()))) < len(data.get("domains", ())):
            errors["domains"] = [message("Duplicate domain.")]
        if errors:
            raise ValidationError(errors)


class CertificatePatch(Patch):
    name = Name(**describe("Display name.", "shop.example.com"))
    certificate = certificate_field()
    chain = chain_field()
    private_key = private_key_field()
