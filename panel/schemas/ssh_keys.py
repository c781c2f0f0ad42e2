"""SSH keys in the API."""

from marshmallow import ValidationError, fields, validate, validates_schema

from panel.core.messages import message
from panel.schemas.base import In, Int, Name, Out, PageQuery, Text, Time, describe


class PublicKeyLine(Text):
    """A public key: one line in OpenSSH format, stored exactly as it was sent. It may end with a line break, as the
    file that ssh-keygen writes does."""

    def _deserialize(self, value, attr, data, **kwargs):
        text = value.removesuffix("\n").removesuffix("\r") if isinstance(value, str) else value
        line = super()._deserialize(text, attr, data, **kwargs)
        if len(line.split()) < 2:
            raise ValidationError(message("Paste one line in OpenSSH format."))
        return value


def name_field(**options):
    rules = [validate.Regexp(r"(?i)^[a-z0-9 .-]+$", error=message("Only letters, digits, spaces, dots and hyphens."))]
    return Name(maximum=32, rules=rules, **options, **describe("Name, unique in the account.", "laptop"))


class SshKeyIn(In):
    name = name_field(required=True)
    public_key = PublicKeyLine(
        maximum=16384, required=True, **describe("The public key, OpenSSH format.", "ssh-ed25519 AAAAC3Nza… ada@laptop")
    )
    comments = Text(allow_none=True, **describe("Comment. Defaults to the comment in the key.", "Ada's laptop"))


class SshKeyPatch(In):
    name = name_field()
    comments = Text(allow_none=True, **describe("Comment.", "Ada's laptop"))


class SshKeyGenerate(In):
    name = name_field(required=True)
    algorithm = fields.String(
        required=True, validate=validate.OneOf(("rsa", "ed25519")), **describe("Key type.", "ed25519")
    )
    bits = Int(
        load_default=None,
        allow_none=True,
        **describe("Key size: 2048, 3072 (default) or 4096 for RSA; 256 for Ed25519.", 256),
    )

    @validates_schema
    def validate_size(self, data, **_):
        sizes = (2048, 3072, 4096) if data.get("algorithm") == "rsa" else (256,)
        if data.get("bits") not in (None, *sizes):
            raise ValidationError(message("Must be one of {sizes}.", sizes=", ".join(map(str, sizes))), "bits")


class SshKeyOut(Out):
    id = fields.String(**describe("Key id.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))
    name = fields.String(**describe("Name.", "laptop"))
    public_key = fields.String(**describe("The public key as it was sent.", "ssh-ed25519 AAAAC3Nza… ada@laptop"))
    fingerprint = fields.String(**describe("Fingerprint as printed by ssh-keygen.", "SHA256:2Vd8…"))
    comments = fields.String(allow_none=True, **describe("Comment.", "ada@laptop"))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))


class AdminSshKeyOut(SshKeyOut):
    user_id = fields.String(attribute="account_id", **describe("The owner.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))


class SshKeyQuery(PageQuery):
    search = Text(**describe("Part of a name.", "laptop"))
