import pytest

from panel.core.db import session
from panel.services import brands
from tests.branding.hosts import set_host
from tests.branding.images import make_png
from tests.support.cast import PASSWORD

BRAND = {
    "host": "cloud.example.com",
    "name": "Example Cloud",
    "accent": "#ffcc00",
    "logo": make_png(),
    "support_url": "https://example.com/help",
    "imprint_url": "https://example.com/imprint",
    "sign_in_text": "Welcome to the example.",
    "sender_address": "hello@cloud.example.com",
}


@pytest.fixture
def brand(cast):
    """A second brand at cloud.example.com."""
    row = brands.save(None, **BRAND)
    session.commit()
    return row


@pytest.fixture
def branded_browser(browser_as):
    """Return a function that opens a browser at the second brand's host."""

    def open_browser(caller=None):
        browser = set_host(browser_as(), f"{BRAND['host']}:8000")
        if caller:
            form = {"email": f"{caller}@example.com", "password": PASSWORD}
            assert browser.post("/sign-in", data=form).status_code == 303
        return browser

    return open_browser
