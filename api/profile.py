"""Security of the token's own user: password, second factor, passkeys, sessions.

These operations only need the token's scope and no permission of a role, so every team member can use them.
"""

import json

from flask import g
from marshmallow import fields

from api import kit
from panel.auth import login, permissions
from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Account
from panel.ratelimit import sign_in
from panel.schemas.base import describe
from panel.schemas.security import CodeIn, PasskeyIn, PasskeyOut, PasswordChange, PasswordConfirmed, SignInOut
from panel.services import factors, passkeys, passwords, sessions

user = kit.User("profile", __name__, description="The user of the token")
RECOVERY_CODES_FIELD = fields.List(
    fields.String(),
    allow_none=True,
    **describe(
        "Ten recovery codes, only returned in this response; null if there already are some.", ["a2bc-d3ef-gh4j-kmn5"]
    ),
)
OPTIONS_FIELD = fields.Dict(
    **describe("Options for `navigator.credentials.create()` in the browser.", {"challenge": "8cP…"})
)
STATE_FIELD = fields.String(**describe("Send it back with the browser's response within five minutes.", "gAAAAABp…"))


def get_person():
    """Return the account of the token's user: for a team member the member's, not the owner's."""
    return session.get(Account, kit.get_current_access().person_id)


def confirm_password(password, error_field="password"):
    """Return the person's account after checking the password. Raises Invalid for `field` when it is wrong."""
    person = get_person()
    sign_in.consume_reauthentication(g.caller.token_id)
    passwords.ensure_correct(person, password, error_field)
    return person


@user.post(
    "/profile/password", op="password", can=permissions.PERSONAL, body=PasswordChange, out=kit.build_result_schema()
)
def change_password(body):
    """Change the password.

    All browser sessions end; API tokens stay valid. Returns 422 under `new_password` for a common password, a pattern
    or the user's email address.
    """
    person = confirm_password(body["current_password"], "current_password")
    passwords.change(person, body["new_password"], login.get_request_source(), error_field="new_password")
    return {"message": "Password changed. All sessions are signed out."}


@user.post(
    "/profile/2fa/enable",
    op="two_factor_enable",
    can=permissions.PERSONAL,
    out=kit.build_result_schema(
        secret=fields.String(**describe("Secret for the authenticator app, base32.", "JBSWY3DPEHPK3PXP")),
        otpauth_url=fields.String(**describe("The secret as a URL, the content of the QR code.", "otpauth://totp/…")),
        qr_code=fields.String(**describe("The QR code as a data URL.", "data:image/svg+xml,…")),
    ),
)
def start_two_factor():
    """Start the setup of two-factor authentication.

    Nothing changes until the secret is confirmed with a code. Every call generates a new secret.
    """
    person = get_person()
    secret = factors.start_setup(person)
    return {
        "message": "Confirm with a code from your authenticator app.",
        "secret": secret,
        "otpauth_url": factors.make_provisioning_uri(person),
        "qr_code": factors.make_qr_code(person),
    }


@user.post(
    "/profile/2fa/confirm",
    op="two_factor_confirm",
    can=permissions.PERSONAL,
    body=CodeIn,
    out=kit.build_result_schema(recovery_codes=RECOVERY_CODES_FIELD),
)
def confirm_two_factor(body):
    """Enable two-factor authentication.

    Afterwards, signing in with the password also requires a code.
    """
    person = get_person()
    sign_in.consume_code_attempt(person, None)
    codes = factors.confirm(person, body["code"], login.get_request_source())
    return {
        "message": "Two-factor authentication enabled. Save the recovery codes now. They will not be shown again.",
        "recovery_codes": codes,
    }


@user.post(
    "/profile/2fa/disable",
    op="two_factor_disable",
    can=permissions.PERSONAL,
    body=PasswordConfirmed,
    out=kit.build_result_schema(),
)
def disable_two_factor(body):
    """Disable two-factor authentication."""
    factors.disable(confirm_password(body["password"]), login.get_request_source())
    return {"message": "Two-factor authentication disabled."}


@user.post(
    "/profile/2fa/recovery-codes",
    op="recovery_codes",
    can=permissions.PERSONAL,
    body=PasswordConfirmed,
    out=kit.build_result_schema(recovery_codes=RECOVERY_CODES_FIELD),
)
def recovery_codes(body):
    """Generate new recovery codes.

    Existing codes become invalid.
    """
    codes = factors.renew_codes(confirm_password(body["password"]), login.get_request_source())
    return {
        "message": "Recovery codes generated. Save them now. They will not be shown again.",
        "recovery_codes": codes,
    }


@user.get(
    "/profile/passkeys",
    op="passkeys",
    can=permissions.ANY_USER,
    query=kit.PageQuery,
    out=kit.build_page_schema(PasskeyOut),
)
def list_passkeys():
    """List passkeys."""
    return kit.paginate(passkeys.listing(get_person()))


@user.post(
    "/profile/passkeys/options",
    op="passkey_options",
    can=permissions.PERSONAL,
    body=PasswordConfirmed,
    out=kit.build_result_schema(options=OPTIONS_FIELD, state=STATE_FIELD),
)
def passkey_options(body):
    """Start the registration of a passkey.

    Pass `options` to the browser's WebAuthn API, then send its response with `state` to `POST /api/profile/passkeys`.
    """
    person = confirm_password(body["password"])
    options, challenge = passkeys.create_registration(person, login.get_passkey_site())
    return {
        "message": "Registration started. Continue in the browser.",
        "options": options,
        "state": passkeys.encrypt_challenge(person, challenge),
    }


@user.post(
    "/profile/passkeys",
    op="passkey_add",
    can=permissions.PERSONAL,
    body=PasskeyIn,
    out=kit.build_result_schema(recovery_codes=RECOVERY_CODES_FIELD),
)
def add_passkey(body):
    """Register a passkey."""
    person = get_person()
    codes = passkeys.register(
        person,
        name=body["name"],
        credential=json.dumps(body["credential"]),
        challenge=passkeys.decrypt_challenge(person, body["state"]),
        site=login.get_passkey_site(),
        source=login.get_request_source(),
    )
    return {"message": "Passkey added.", "recovery_codes": codes}


@user.delete(
    "/profile/passkey/<passkey_id>",
    op="passkey_delete",
    can=permissions.PERSONAL,
    body=PasswordConfirmed,
    out=kit.build_result_schema(),
)
def remove_passkey(body, passkey_id):
    """Delete a passkey."""
    person = confirm_password(body["password"])
    passkeys.remove(passkeys.get(person, passkey_id), login.get_request_source())
    return {"message": "Passkey deleted."}


@user.get(
    "/profile/sessions",
    op="sessions",
    can=permissions.ANY_USER,
    query=kit.PageQuery,
    out=kit.build_page_schema(SignInOut),
)
def list_sessions():
    """List the active browser sessions."""
    return kit.paginate(sessions.listing(get_person()))


@user.delete(
    "/profile/session/<session_id>", op="session_delete", can=permissions.PERSONAL, out=kit.build_result_schema()
)
def end_session(session_id):
    """Revoke a browser session."""
    if not sessions.revoke_one(get_person(), session_id):
        raise NotFound("No such session.")
    return {"message": "Session revoked."}
