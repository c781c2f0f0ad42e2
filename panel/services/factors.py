"""Second factors: codes of an authenticator (TOTP, RFC 6238), and recovery codes that replace a lost factor."""

import hmac
import secrets
from typing import Any, cast

import pyotp
import segno
from sqlalchemy import delete, exists, func, or_, select, update

from panel.core import clock
from panel.core.db import count_changed, session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import Account, Passkey, RecoveryCode
from panel.services import brands, security_notifications, settings
from panel.services.tokens import hash_secret

TOTP_STEP_SECONDS = 30
"""Seconds for which a code is valid."""
TOTP_DIGITS = 6
RECOVERY_CODE_COUNT = 10
RECOVERY_CODE_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters and digits that are not mistaken for others. Sixteen of them are 79 bits, so a slow hash is not needed."""
WRONG_CODE_MESSAGE = message("This code is wrong or was already used. Wait for the next one.")


def has_second_factor(account: Account) -> bool:
    """Return whether signing in needs more than the password."""
    return account.two_factor_at is not None or has_passkey(account)


def has_passkey(account: Account) -> bool:
    return bool(session.scalar(select(exists().where(Passkey.account_id == account.id))))


def is_second_factor_missing(account: Account) -> bool:
    """Return whether the platform's settings require a second factor of this account and it has none."""
    required_for = settings.get().require_second_factor
    if required_for == "nobody" or (required_for == "operators" and not account.is_admin):
        return False
    return not has_second_factor(account)


def start_setup(account: Account) -> str:
    """Set and return a new secret for an authenticator. It has no effect until a code has confirmed it."""
    if account.two_factor_at:
        raise Conflict(
            message("Two-factor authentication is already on. Turn it off first."), reason="two_factor_enabled"
        )
    account.totp_secret, account.totp_step = pyotp.random_base32(), None
    session.flush()
    return account.totp_secret


def make_provisioning_uri(account: Account) -> str:
    """Return the URI that authenticators read from the QR code."""
    return pyotp.TOTP(cast(str, account.totp_secret), interval=TOTP_STEP_SECONDS).provisioning_uri(
        name=account.email, issuer_name=brands.get_current().name
    )


def make_qr_code(account: Account) -> str:
    """Return the QR code as a data URI."""
    return segno.make(make_provisioning_uri(account), error="m").svg_data_uri(scale=5, border=2, light="white")


def confirm(account: Account, code: str, source: Any) -> list[str] | None:
    """Turn on two-factor authentication. Return the recovery codes if these are the first, else None."""
    if account.two_factor_at:
        raise Conflict(message("Two-factor authentication is already on."), reason="two_factor_enabled")
    if not account.totp_secret:
        raise Conflict(message("Start with a new secret for your authenticator app."), reason="two_factor_not_begun")
    if not verify_totp(account, normalize_code(code)):
        raise Invalid(message("The code is wrong."), code=WRONG_CODE_MESSAGE)
    account.two_factor_at = clock.now()
    session.flush()
    security_notifications.send_setting_change(account, message("Two-factor authentication was turned on"), source)
    return create_first_codes(account)


def disable(account: Account, source: Any) -> None:
    if not account.two_factor_at:
        raise Conflict(message("Two-factor authentication is not on."), reason="two_factor_disabled")
    account.totp_secret = account.two_factor_at = account.totp_step = None
    session.flush()
    remove_codes_without_factor(account)
    security_notifications.send_setting_change(account, message("Two-factor authentication was turned off"), source)


def normalize_code(code: str) -> str:
    """Return the code without separators, in lower case."""
    return "".join(code.replace("-", "").split()).lower()


def is_totp_code(code: str) -> bool:
    """Return whether it has the form of an authenticator's code; otherwise it can only be a recovery code."""
    return len(normalize_code(code)) == TOTP_DIGITS and normalize_code(code).isdecimal()


def verify_code(account: Account, code: str) -> bool:
    """Return whether the code is right, and use it up."""
    if is_totp_code(code):
        return account.two_factor_at is not None and verify_totp(account, normalize_code(code))
    return use_recovery_code(account, normalize_code(code))


def verify_totp(account: Account, code: str) -> bool:
    """Return whether the code is right now, with half a minute of tolerance for clocks. A code works once; afterwards
    it and older ones are refused."""
    if not account.totp_secret:
        return False
    totp, current = (
        pyotp.TOTP(account.totp_secret, interval=TOTP_STEP_SECONDS),
        int(clock.now().timestamp()) // TOTP_STEP_SECONDS,
    )
    for step in (current - 1, current, current + 1):
        if hmac.compare_digest(totp.generate_otp(step).encode(), code.encode()):
            return use_totp_step(account, step)
    return False


def use_totp_step(account: Account, step: int) -> bool:
    query = update(Account).where(Account.id == account.id, or_(Account.totp_step.is_(None), Account.totp_step < step))
    return count_changed(query.values(totp_step=step)) == 1


def create_first_codes(account: Account) -> list[str] | None:
    """Create recovery codes when the account has none yet, else return None."""
    return None if count_codes(account) else create_codes(account)


def create_codes(account: Account) -> list[str]:
    """Create ten new recovery codes and return them; older ones become invalid. Only hashes are stored."""
    session.execute(delete(RecoveryCode).where(RecoveryCode.account_id == account.id))
    codes = ["".join(secrets.choice(RECOVERY_CODE_ALPHABET) for _ in range(16)) for _ in range(RECOVERY_CODE_COUNT)]
    session.add_all(RecoveryCode(account_id=account.id, secret_hash=hash_secret(code)) for code in codes)
    session.flush()
    return ["-".join(code[at : at + 4] for at in range(0, 16, 4)) for code in codes]


def renew_codes(account: Account, source: Any) -> list[str]:
    if not has_second_factor(account):
        raise Conflict(
            message("Recovery codes are for accounts with a second factor. Set one up first."), reason="no_factor"
        )
    security_notifications.send_setting_change(account, message("New recovery codes were created"), source)
    return create_codes(account)


def count_codes(account: Account) -> int:
    query = select(func.count()).select_from(RecoveryCode)
    return session.scalars(query.where(RecoveryCode.account_id == account.id)).one()


def use_recovery_code(account: Account, code: str) -> bool:
    """Return whether this is a recovery code of the account, and use it up. The code is normalized."""
    query = delete(RecoveryCode).where(RecoveryCode.account_id == account.id)
    return count_changed(query.where(RecoveryCode.secret_hash == hash_secret(code))) == 1


def remove_codes_without_factor(account: Account) -> None:
    """Delete the recovery codes of an account that has no second factor left."""
    if not has_second_factor(account):
        session.execute(delete(RecoveryCode).where(RecoveryCode.account_id == account.id))


def reset(account: Account, source: Any) -> None:
    """Remove every second factor of somebody who lost them all. Afterwards the password alone is enough."""
    account.totp_secret = account.two_factor_at = account.totp_step = None
    for model in (Passkey, RecoveryCode):
        session.execute(delete(model).where(model.account_id == account.id))
    session.flush()
    security_notifications.send_setting_change(account, message("Every second factor was removed"), source)
