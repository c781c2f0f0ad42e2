"""Second factors: codes of an authenticator (TOTP, RFC 6238) and the recovery codes that stand in for a lost one."""

import hmac
import secrets

import pyotp
import segno
from sqlalchemy import delete, exists, func, or_, select, update

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.models import Account, Passkey, RecoveryCode
from panel.services import security_notifications, settings
from panel.services.tokens import hash_secret

TOTP_STEP_SECONDS = 30
"""Seconds that a code is shown."""
TOTP_DIGITS = 6
RECOVERY_CODE_COUNT = 10
RECOVERY_CODE_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without what is mistaken for something else. Sixteen of them are 79 bits, which needs no slow hash."""
TOTP_ISSUER = "Panel"
WRONG_CODE_MESSAGE = "This code is wrong, or was used already. Wait for the next one."


def has_second_factor(account):
    """Whether a password alone does not open the account."""
    return account.two_factor_at is not None or has_passkey(account)


def has_passkey(account):
    return session.scalar(select(exists().where(Passkey.account_id == account.id)))


def is_second_factor_missing(account):
    """Whether the operators of the platform want a second factor of this person, who has none."""
    wanted = settings.get().require_second_factor
    if wanted == "nobody" or (wanted == "operators" and not account.is_admin):
        return False
    return not has_second_factor(account)


def start_setup(account):
    """A new secret for an authenticator. It counts for nothing until a code has confirmed it."""
    if account.two_factor_at:
        raise Conflict("Two-factor authentication is on already. Turn it off first.", reason="two_factor_enabled")
    account.totp_secret, account.totp_step = pyotp.random_base32(), None
    session.flush()
    return account.totp_secret


def make_provisioning_uri(account):
    """What authenticators read from the QR code."""
    return pyotp.TOTP(account.totp_secret, interval=TOTP_STEP_SECONDS).provisioning_uri(
        name=account.email, issuer_name=TOTP_ISSUER
    )


def make_qr_code(account):
    """The QR code, as the address of a picture."""
    return segno.make(make_provisioning_uri(account), error="m").svg_data_uri(scale=5, border=2, light="white")


def confirm(account, code, source):
    """Turns two-factor authentication on and returns the recovery codes, if these are the first."""
    if account.two_factor_at:
        raise Conflict("Two-factor authentication is on already.", reason="two_factor_enabled")
    if not account.totp_secret:
        raise Conflict("Begin with a new secret for your authenticator.", reason="two_factor_not_begun")
    if not verify_totp(account, normalize_code(code)):
        raise Invalid("The code is wrong.", code=WRONG_CODE_MESSAGE)
    account.two_factor_at = clock.now()
    session.flush()
    security_notifications.security_setting_changed(account, "Two-factor authentication was turned on", source)
    return create_first_codes(account)


def disable(account, source):
    if not account.two_factor_at:
        raise Conflict("Two-factor authentication is not on.", reason="two_factor_disabled")
    account.totp_secret = account.two_factor_at = account.totp_step = None
    session.flush()
    remove_codes_without_factor(account)
    security_notifications.security_setting_changed(account, "Two-factor authentication was turned off", source)


def normalize_code(code):
    """A code as it is meant, without what people put between its parts."""
    return "".join(code.replace("-", "").split()).lower()


def is_totp_code(code):
    """Whether it has the form of an authenticator's code; else it can only be a recovery code."""
    return len(normalize_code(code)) == TOTP_DIGITS and normalize_code(code).isdecimal()


def verify_code(account, code):
    """Whether the code lets the person in. It is used up by this."""
    if is_totp_code(code):
        return account.two_factor_at is not None and verify_totp(account, normalize_code(code))
    return use_recovery_code(account, normalize_code(code))


def verify_totp(account, code):
    """Whether the code is right at this moment, with half a minute's difference of clocks. A code counts once, and then
    neither it nor an older one does again."""
    totp, current = (
        pyotp.TOTP(account.totp_secret, interval=TOTP_STEP_SECONDS),
        int(clock.now().timestamp()) // TOTP_STEP_SECONDS,
    )
    for step in (current - 1, current, current + 1):
        if hmac.compare_digest(totp.generate_otp(step).encode(), code.encode()):
            return use_totp_step(account, step)
    return False


def use_totp_step(account, step):
    fresh = update(Account).where(Account.id == account.id, or_(Account.totp_step.is_(None), Account.totp_step < step))
    return session.execute(fresh.values(totp_step=step)).rowcount == 1


def create_first_codes(account):
    """New recovery codes when the person has none yet, else None."""
    return None if count_codes(account) else create_codes(account)


def create_codes(account):
    """Ten new recovery codes; older ones count no more. Only their hashes are kept."""
    session.execute(delete(RecoveryCode).where(RecoveryCode.account_id == account.id))
    codes = ["".join(secrets.choice(RECOVERY_CODE_ALPHABET) for _ in range(16)) for _ in range(RECOVERY_CODE_COUNT)]
    session.add_all(RecoveryCode(account_id=account.id, secret_hash=hash_secret(code)) for code in codes)
    session.flush()
    return ["-".join(code[at : at + 4] for at in range(0, 16, 4)) for code in codes]


def renew_codes(account, source):
    if not has_second_factor(account):
        raise Conflict("Recovery codes are for accounts with a second factor. Set one up first.", reason="no_factor")
    security_notifications.security_setting_changed(account, "New recovery codes were made", source)
    return create_codes(account)


def count_codes(account):
    mine = select(func.count()).select_from(RecoveryCode)
    return session.scalar(mine.where(RecoveryCode.account_id == account.id))


def use_recovery_code(account, code):
    """Whether it is one of the person's codes, written plainly; it is used up by this."""
    spent = delete(RecoveryCode).where(RecoveryCode.account_id == account.id)
    return session.execute(spent.where(RecoveryCode.secret_hash == hash_secret(code))).rowcount == 1


def remove_codes_without_factor(account):
    """Recovery codes stand in for a factor: without any they go."""
    if not has_second_factor(account):
        session.execute(delete(RecoveryCode).where(RecoveryCode.account_id == account.id))


def reset(account, source):
    """Removes every second factor of somebody who lost them all: the password alone opens the account again."""
    account.totp_secret = account.two_factor_at = account.totp_step = None
    for model in (Passkey, RecoveryCode):
        session.execute(delete(model).where(model.account_id == account.id))
    session.flush()
    security_notifications.security_setting_changed(account, "Every second factor was removed", source)
