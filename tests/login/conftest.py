"""People with second factors and passkeys, and a clock to move."""

from datetime import timedelta

import pyotp
import pytest

from panel.core import clock
from panel.core.db import session
from panel.services import factors
from panel.services.security_notifications import Source
from tests.conftest import connect_rate_limits
from tests.login.authenticator import Authenticator
from tests.support.cast import PASSWORD

LOCAL_SOURCE = Source("127.0.0.1", "test")


@pytest.fixture
def sign_in():
    """Sends the sign-in form: `sign_in(browse())`."""

    def send(browser, email="owner@example.com", password=PASSWORD, address="/sign-in", **options):
        return browser.post(address, data={"email": email, "password": password}, **options)

    return send


@pytest.fixture
def advance_clock(monkeypatch):
    """Sets the clock forward, beyond what limits remember: `move(minutes=5)`."""

    def forward(**by):
        moved = clock.now() + timedelta(**by)
        monkeypatch.setattr(clock, "now", lambda: moved)
        connect_rate_limits("")

    return forward


@pytest.fixture
def totp_code():
    """What an account's authenticator shows, or will show some steps from now."""

    def shown(account, steps=0):
        return pyotp.TOTP(account.totp_secret).generate_otp(
            int(clock.now().timestamp()) // factors.TOTP_STEP_SECONDS + steps
        )

    return shown


@pytest.fixture
def with_totp(cast, totp_code, advance_clock):
    """The owner with an authenticator; its recovery codes."""
    factors.start_setup(cast.owner)
    codes = factors.confirm(cast.owner, totp_code(cast.owner), LOCAL_SOURCE)
    session.commit()
    advance_clock(seconds=60)
    return codes


@pytest.fixture
def passkey(browser_as):
    """A passkey of the owner, on a device in software."""
    return add_passkey(browser_as("owner"))


def add_passkey(browser, device=None, name="Laptop"):
    device = device or Authenticator()
    options = browser.post("/profile/passkeys/options", data={"name": name, "password": PASSWORD}).json
    answer = browser.post("/profile/passkeys", data={"name": name, "credential": device.create(options)})
    assert answer.status_code == 303, answer.text
    return device
