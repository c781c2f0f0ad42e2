"""Fixtures for second factors, passkeys and the clock."""

from datetime import timedelta

import pyotp
import pytest

from panel.core import clock
from panel.core.db import session
from panel.services import factors
from tests.login.passkeys import add_passkey
from tests.login.sources import LOCAL_SOURCE
from tests.support.cast import PASSWORD
from tests.support.rate_limit_clock import connect_rate_limits


@pytest.fixture
def sign_in():
    """Return a function that submits the sign-in form: `sign_in(browser_as())`."""

    def send(browser, email="owner@example.com", password=PASSWORD, address="/sign-in", **options):
        return browser.post(address, data={"email": email, "password": password}, **options)

    return send


@pytest.fixture
def advance_clock(monkeypatch):
    """Return a function that advances the clock and resets the rate limits: `advance_clock(minutes=5)`."""

    def advance(**by):
        now = clock.now() + timedelta(**by)
        monkeypatch.setattr(clock, "now", lambda: now)
        connect_rate_limits("")

    return advance


@pytest.fixture
def totp_code():
    """Return a function that computes an account's TOTP code, now or some time steps later."""

    def compute(account, steps=0):
        return pyotp.TOTP(account.totp_secret).generate_otp(
            int(clock.now().timestamp()) // factors.TOTP_STEP_SECONDS + steps
        )

    return compute


@pytest.fixture
def totp_recovery_codes(cast, totp_code, advance_clock):
    """Enable TOTP for the owner. Return the recovery codes."""
    factors.start_setup(cast.owner)
    codes = factors.confirm(cast.owner, totp_code(cast.owner), LOCAL_SOURCE)
    session.commit()
    advance_clock(seconds=60)
    return codes


@pytest.fixture
def passkey(browser_as):
    """A passkey of the owner, in a software authenticator."""
    return add_passkey(browser_as("owner"))
