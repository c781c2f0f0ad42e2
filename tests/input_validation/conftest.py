"""Every operation is open here: with billing off, those that cost something would say only that."""

import pytest

from panel.services import settings


@pytest.fixture(autouse=True)
def billing_enabled(rolled_back_app):
    settings.update({"billing_enabled": True})
