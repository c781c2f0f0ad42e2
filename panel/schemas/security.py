"""A user's own security settings in the API."""

from typing import Any

from marshmallow import fields, validate

from panel.schemas.accounts import PASSWORD_RULE, AccountPassword
from panel.schemas.base import In, Name, Out, Text, Time, describe
from panel.schemas.constants import PASSWORD_MAX_LENGTH

EXAMPLE_ID = "0199c0a8-0000-7000-8000-000000000001"
PASSWORD_OPTIONS: dict[str, Any] = {"required": True, "validate": validate.Length(1, PASSWORD_MAX_LENGTH)}


class PasswordConfirmed(In):
    password = fields.String(**PASSWORD_OPTIONS, **describe("The current password.", "correct horse battery"))


class PasswordChange(In):
    current_password = fields.String(**PASSWORD_OPTIONS, **describe("The current password.", "correct horse battery"))
    new_password = AccountPassword(
        required=True, **describe(f"The new password. {PASSWORD_RULE}", "staple battery horse")
    )


class CodeIn(In):
    code = Text(required=True, minimum=1, maximum=16, **describe("Current code of the authenticator app.", "492039"))


class PasskeyIn(In):
    name = Name(required=True, maximum=64, **describe("Name of the passkey.", "Laptop"))
    credential = fields.Dict(
        required=True, **describe("Response of the browser: the credential as returned by `toJSON()`.", {"id": "Xa0…"})
    )
    state = fields.String(
        required=True,
        validate=validate.Length(1, 4096),
        **describe("The unchanged `state` from the options.", "gAAAAABp…"),
    )


class PasskeyOut(Out):
    id = fields.String(**describe("Passkey id.", EXAMPLE_ID))
    name = fields.String(**describe("Name of the passkey.", "Laptop"))
    last_used_at = Time(allow_none=True, **describe("When it was last used to sign in.", "2026-01-02T03:04:05.678Z"))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))


class SignInOut(Out):
    id = fields.String(**describe("Session id.", EXAMPLE_ID))
    ip = fields.String(**describe("IP address of the sign-in.", "203.0.113.7"))
    user_agent = fields.String(
        **describe("User agent of the browser.", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")
    )
    created_at = Time(**describe("When the user signed in.", "2026-01-02T03:04:05.678Z"))
    last_seen_at = Time(
        allow_none=True, **describe("When it was last used, accurate to a few minutes.", "2026-01-02T03:04:05.678Z")
    )
    expires_at = Time(**describe("Expiry.", "2026-01-16T03:04:05.678Z"))
