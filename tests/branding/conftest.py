import pytest

from panel.core.db import session
from panel.services import brands
from tests.branding.hosts import set_host
from tests.branding.images import make_png

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
        return set_host(browser_as(caller), f"{BRAND['host']}:8000")

    return open_browser
