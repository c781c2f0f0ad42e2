"""A person's own security settings in the API."""

from typing import Any

from marshmallow import fields, validate

from panel.schemas.accounts import PASSWORD_RULE, AccountPassword
from panel.schemas.base import In, Name, Out, Text, Time, describe
from panel.schemas.constants import PASSWORD_MAX_LENGTH

EXAMPLE_ID = "0199c0a8-0000-7000-8000-000000000001"
PASSWORD_OPTIONS: dict[str, Any] = {"required": True, "validate": validate.Length(1, PASSWORD_MAX_LENGTH)}


class PasswordConfirmed(In):
    password = fields.String(**PASSWORD_OPTIONS, **describe("The person's password.", "correct horse battery"))


class PasswordChange(In):
    current_password = fields.String(**PASSWORD_OPTIONS, **describe("The password as it is.", "correct horse battery"))
    new_password = AccountPassword(
        required=True, **describe(f"The password as it is to be. {PASSWORD_RULE}", "staple battery horse")
    )


class CodeIn(In):
    code = Text(
        required=True, minimum=1, maximum=16, **describe("What the authenticator shows at this moment.", "492039")
    )


class PasskeyIn(In):
    name = Name(required=True, maximum=64, **describe("To tell passkeys apart.", "Laptop"))
    credential = fields.Dict(
        required=True, **describe("What the browser answered: the credential as `toJSON()` writes it.", {"id": "Xa0…"})
    )
    state = fields.String(
        required=True,
        validate=validate.Length(1, 4096),
        **describe("What came with the options, as it is.", "gAAAAABp…"),
    )


class PasskeyOut(Out):
    id = fields.String(**describe("Passkey id.", EXAMPLE_ID))
    name = fields.String(**describe("What its owner calls it.", "Laptop"))
    last_used_at = Time(
        allow_none=True, **describe("When somebody last signed in with it.", "2026-01-02T03:04:05.678Z")
    )
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))


class SignInOut(Out):
    id = fields.String(**describe("Session id.", EXAMPLE_ID))
    ip = fields.String(**describe("The address that signed in.", "203.0.113.7"))
    user_agent = fields.String(
        **describe("What the browser called itself.", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")
    )
    created_at = Time(**describe("When the person signed in.", "2026-01-02T03:04:05.678Z"))
    last_seen_at = Time(
        allow_none=True, **describe("When it was last used, to within some minutes.", "2026-01-02T03:04:05.678Z")
    )
    expires_at = Time(**describe("When it ends by itself.", "2026-01-16T03:04:05.678Z"))
