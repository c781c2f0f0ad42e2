"""Passkeys: WebAuthn credentials in the browser, with which people sign in without a password."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import webauthn
from cryptography.fernet import InvalidToken
from sqlalchemy import ColumnElement, Select, exists, func, or_, select, update
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialCreationOptions,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRequestOptions,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from panel.core import clock, context
from panel.core.db import count_changed, decrypt, encrypt, lock_row, session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, Passkey
from panel.services import brands, factors, security_notifications
from panel.services.security_notifications import Source

CHALLENGE_TTL = timedelta(minutes=5)
"""How long a challenge may be answered."""
MAX_PASSKEYS = 20
PASSKEY_REFUSED_MESSAGE = message("The passkey could not be checked. Try again.")
USER_VERIFICATION = UserVerificationRequirement.REQUIRED
"""The device checks a PIN, fingerprint or face, so a passkey is two factors."""


class Site(NamedTuple):
    """The relying party of WebAuthn: host and origin of the panel's public address."""

    host: str
    origin: str

    @classmethod
    def from_url(cls, public_url: str) -> "Site":
        """Return the site of a URL. Browsers refuse passkeys for IP addresses, so this machine is `localhost`."""
        parts = urlsplit(public_url)
        host = "localhost" if parts.hostname in ("127.0.0.1", "::1") else parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
        return cls(host, f"{parts.scheme}://{host}{port}")


class Challenge(NamedTuple):
    """What a passkey has to sign, and when it was created (seconds since 1970)."""

    value: str
    created_at: float

    def is_fresh(self) -> bool:
        return timedelta(0) <= timedelta(seconds=clock.now().timestamp() - self.created_at) <= CHALLENGE_TTL


def encrypt_challenge(account: Account, challenge: Challenge) -> str:
    """Return the challenge as encrypted text, for a client without cookies."""
    return encrypt(json.dumps([account.id, *challenge]))


def decrypt_challenge(account: Account, state: str) -> Challenge | None:
    """Return the challenge that was sealed for this account, or None."""
    try:
        owner, *values = json.loads(decrypt(state))
    except (InvalidToken, ValueError):
        return None
    return Challenge(*values) if owner == account.id else None


def listing(account: Account) -> Select[Passkey]:
    return select(Passkey).where(Passkey.account_id == account.id).order_by(Passkey.id)


def get(account: Account, passkey_id: str) -> Passkey:
    passkey = session.scalar(listing(account).where(Passkey.id == passkey_id))
    if passkey is None:
        raise NotFound(message("No such passkey."))
    return passkey


def create_registration(account: Account, site: Site) -> tuple[dict[str, Any], Challenge]:
    """Return the browser's options to create a passkey, and the challenge to store until the answer."""
    options = webauthn.generate_registration_options(
        rp_id=site.host,
        rp_name=brands.get_current().name,
        user_id=account.id.encode(),
        user_name=account.email,
        user_display_name=account.name,
        exclude_credentials=list_descriptors(account, site),
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=USER_VERIFICATION
        ),
    )
    return serialize_options(options)


def create_authentication(site: Site, account: Account | None = None) -> tuple[dict[str, Any], Challenge]:
    """Return the browser's options to sign in with a passkey, any or one of the account, and the challenge."""
    descriptors = list_descriptors(account, site) if account else None
    return serialize_options(
        webauthn.generate_authentication_options(
            rp_id=site.host, allow_credentials=descriptors, user_verification=USER_VERIFICATION
        )
    )


def serialize_options(
    options: PublicKeyCredentialCreationOptions | PublicKeyCredentialRequestOptions,
) -> tuple[dict[str, Any], Challenge]:
    challenge = Challenge(bytes_to_base64url(options.challenge), clock.now().timestamp())
    return json.loads(webauthn.options_to_json(options)), challenge


def is_for_site(site: Site) -> ColumnElement[bool]:
    """Return the condition that a passkey works on the site. Without a host it is for the public address."""
    is_public = site.host == Site.from_url(context.current().config.public_url).host
    return or_(Passkey.host == site.host, Passkey.host.is_(None)) if is_public else Passkey.host == site.host


def has_passkey(account: Account, site: Site) -> bool:
    """Return whether the account has a passkey for the site."""
    return bool(session.scalar(select(exists().where(Passkey.account_id == account.id, is_for_site(site)))))


def list_descriptors(account: Account, site: Site) -> list[PublicKeyCredentialDescriptor]:
    ids = session.scalars(select(Passkey.credential_id).where(Passkey.account_id == account.id, is_for_site(site)))
    return [PublicKeyCredentialDescriptor(id=base64url_to_bytes(credential_id)) for credential_id in ids]


def register(
    account: Account, *, name: str, credential: str, challenge: Challenge | None, site: Site, source: Source
) -> list[str] | None:
    """Store a new passkey. Return the recovery codes, if this is the account's first factor."""
    lock_row(Account, account.id)  # concurrent calls are counted one after the other
    count = session.scalar(select(func.count()).select_from(listing(account).subquery())) or 0
    if count >= MAX_PASSKEYS:
        raise Invalid(
            message(
                "You have {maximum} passkeys, which is the maximum. Remove one that you no longer use.",
                maximum=MAX_PASSKEYS,
            )
        )
    if challenge is None or not challenge.is_fresh():
        raise Invalid(message("This took too long. Try again."))
    try:
        registration = webauthn.verify_registration_response(
            credential=credential,
            expected_challenge=base64url_to_bytes(challenge.value),
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError):
        raise Invalid(message("The passkey could not be saved. Try again.")) from None
    credential_id = bytes_to_base64url(registration.credential_id)
    if session.scalar(select(Passkey.id).where(Passkey.credential_id == credential_id)):
        raise Invalid(message("This passkey is already registered."))
    session.add(
        Passkey(
            account_id=account.id,
            name=name,
            host=site.host,
            credential_id=credential_id,
            public_key=bytes_to_base64url(registration.credential_public_key),
            sign_count=registration.sign_count,
        )
    )
    session.flush()
    security_notifications.send_setting_change(account, message("A passkey was added"), source)
    return factors.create_first_codes(account)


def verify(credential: str, challenge: Challenge | None, site: Site, account: Account | None = None) -> Passkey:
    """Return the passkey that signed the challenge, one of `account` if given. Raise Invalid if there is none."""
    passkey = find(credential)
    if passkey is None or challenge is None or not challenge.is_fresh():
        raise Invalid(PASSKEY_REFUSED_MESSAGE)
    if account and passkey.account_id != account.id:
        raise Invalid(PASSKEY_REFUSED_MESSAGE)
    try:
        proof = webauthn.verify_authentication_response(
            credential=credential,
            expected_challenge=base64url_to_bytes(challenge.value),
            expected_rp_id=site.host,
            expected_origin=site.origin,
            credential_public_key=base64url_to_bytes(passkey.public_key),
            credential_current_sign_count=passkey.sign_count,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError):
        raise Invalid(PASSKEY_REFUSED_MESSAGE) from None
    if not record_use(passkey, challenge, proof.new_sign_count):
        raise Invalid(PASSKEY_REFUSED_MESSAGE)
    return passkey


def find(credential: str) -> Passkey | None:
    """Return the passkey that an answer names, or None. The answer is untrusted JSON text."""
    try:
        credential_id = json.loads(credential)["id"]
    except (ValueError, KeyError, TypeError):
        return None
    query = select(Passkey).where(Passkey.credential_id == credential_id) if isinstance(credential_id, str) else None
    return None if query is None else session.scalar(query)


def record_use(passkey: Passkey, challenge: Challenge, sign_count: int) -> bool:
    """Record the use and return whether the challenge was still unused.

    An answer invalidates all challenges from before it.
    """
    challenged_at = datetime.fromtimestamp(challenge.created_at, UTC)
    is_unused = or_(Passkey.last_used_at.is_(None), Passkey.last_used_at < challenged_at)
    statement = update(Passkey).where(Passkey.id == passkey.id, is_unused)
    return count_changed(statement.values(last_used_at=clock.now(), sign_count=sign_count)) == 1


def remove(passkey: Passkey, source: Source) -> None:
    account = passkey.account
    session.delete(passkey)
    session.flush()
    factors.remove_codes_without_factor(account)
    security_notifications.send_setting_change(account, message("A passkey was removed"), source)
