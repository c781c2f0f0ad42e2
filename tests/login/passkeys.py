"""Passkeys that are added to an account."""

from tests.login.authenticator import Authenticator
from tests.support.cast import PASSWORD


def add_passkey(browser, device=None, name="Laptop"):
    device = device or Authenticator()
    options = browser.post("/profile/passkeys/options", data={"name": name, "password": PASSWORD}).json
    answer = browser.post("/profile/passkeys", data={"name": name, "credential": device.create(options)})
    assert answer.status_code == 303, answer.text
    return device
