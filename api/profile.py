"""The security of the token's own account: password, second factor, passkeys, sessions.

These operations need only the scope of the token and no permission of a role, so every team member can use them.
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

user = kit.User("profile", __name__, description="The person behind the token")
RECOVERY_CODES_FIELD = fields.List(
    fields.String(),
    allow_none=True,
    **describe(
        "Ten recovery codes, in this answer and nowhere else; null when there are some.", ["a2bc-d3ef-gh4j-kmn5"]
    ),
)
OPTIONS_FIELD = fields.Dict(
    **describe("What the browser's `navigator.credentials.create()` takes.", {"challenge": "8cP…"})
)
STATE_FIELD = fields.String(**describe("To be sent back with the browser's answer, within five minutes.", "gAAAAABp…"))


def get_person():
    """Return the account of the person behind the token: the member's for a team member, not the owner's."""
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

    A common password, a pattern or the person's email address answers 422 under `new_password`. Every session in a
    browser ends. Tokens stay.
    """
    person = confirm_password(body["current_password"], "current_password")
    passwords.change(person, body["new_password"], login.get_request_source(), error_field="new_password")
    return {"message": "The password is changed, and every session is ended."}


@user.post(
    "/profile/2fa/enable",
    op="two_factor_enable",
    can=permissions.PERSONAL,
    out=kit.build_result_schema(
        secret=fields.String(**describe("What the authenticator is given, base32.", "JBSWY3DPEHPK3PXP")),
        otpauth_url=fields.String(**describe("The same as authenticators read it from a QR code.", "otpauth://totp/…")),
        qr_code=fields.String(**describe("That QR code, as the address of a picture.", "data:image/svg+xml,…")),
    ),
)
def start_two_factor():
    """Start to set up two-factor authentication.

    Nothing changes until a code has confirmed the secret. A second call gives a new secret.
    """
    person = get_person()
    secret = factors.start_setup(person)
    return {
        "message": "Confirm with a code from your authenticator.",
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
    """Turn two-factor authentication on.

    From now on, signing in with the password needs a code as well.
    """
    person = get_person()
    sign_in.consume_code_attempt(person, None)
    codes = factors.confirm(person, body["code"], login.get_request_source())
    return {"message": "Two-factor authentication is on. Keep the recovery codes.", "recovery_codes": codes}


@user.post(
    "/profile/2fa/disable",
    op="two_factor_disable",
    can=permissions.PERSONAL,
    body=PasswordConfirmed,
    out=kit.build_result_schema(),
)
def disable_two_factor(body):
    """Turn two-factor authentication off."""
    factors.disable(confirm_password(body["password"]), login.get_request_source())
    return {"message": "Two-factor authentication is off."}


@user.post(
    "/profile/2fa/recovery-codes",
    op="recovery_codes",
    can=permissions.PERSONAL,
    body=PasswordConfirmed,
    out=kit.build_result_schema(recovery_codes=RECOVERY_CODES_FIELD),
)
def recovery_codes(body):
    """Make new recovery codes.

    Older ones count no more.
    """
    codes = factors.renew_codes(confirm_password(body["password"]), login.get_request_source())
    return {"message": "Keep the codes: they are not shown again.", "recovery_codes": codes}


@user.get(
    "/profile/passkeys",
    op="passkeys",
    can=permissions.ANY_USER,
    query=kit.PageQuery,
    out=kit.build_page_schema(PasskeyOut),
)
def list_passkeys():
    """List the passkeys."""
    return kit.paginate(passkeys.listing(get_person()))


@user.post(
    "/profile/passkeys/options",
    op="passkey_options",
    can=permissions.PERSONAL,
    body=PasswordConfirmed,
    out=kit.build_result_schema(options=OPTIONS_FIELD, state=STATE_FIELD),
)
def passkey_options(body):
    """Start to add a passkey.

    The options are for the browser's WebAuthn. Its answer and the state go to `POST /api/profile/passkeys`.
    """
    person = confirm_password(body["password"])
    options, challenge = passkeys.create_registration(person, login.get_passkey_site())
    return {"message": "Ask the browser.", "options": options, "state": passkeys.encrypt_challenge(person, challenge)}


@user.post(
    "/profile/passkeys",
    op="passkey_add",
    can=permissions.PERSONAL,
    body=PasskeyIn,
    out=kit.build_result_schema(recovery_codes=RECOVERY_CODES_FIELD),
)
def add_passkey(body):
    """Add a passkey."""
    person = get_person()
    codes = passkeys.register(
        person,
        name=body["name"],
        credential=json.dumps(body["credential"]),
        challenge=passkeys.decrypt_challenge(person, body["state"]),
        site=login.get_passkey_site(),
        source=login.get_request_source(),
    )
    return {"message": "The passkey is added.", "recovery_codes": codes}


@user.delete(
    "/profile/passkey/<passkey_id>",
    op="passkey_delete",
    can=permissions.PERSONAL,
    body=PasswordConfirmed,
    out=kit.build_result_schema(),
)
def remove_passkey(body, passkey_id):
    """Remove a passkey."""
    person = confirm_password(body["password"])
    passkeys.remove(passkeys.get(person, passkey_id), login.get_request_source())
    return {"message": "The passkey is removed."}


@user.get(
    "/profile/sessions",
    op="sessions",
    can=permissions.ANY_USER,
    query=kit.PageQuery,
    out=kit.build_page_schema(SignInOut),
)
def list_sessions():
    """List the browsers that are signed in."""
    return kit.paginate(sessions.listing(get_person()))


@user.delete(
    "/profile/session/<session_id>", op="session_delete", can=permissions.PERSONAL, out=kit.build_result_schema()
)
def end_session(session_id):
    """Sign a browser out."""
    if not sessions.revoke_one(get_person(), session_id):
        raise NotFound("No such session.")
    return {"message": "The session is ended."}
