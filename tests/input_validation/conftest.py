"""Enable billing: without it, operations of billed resources return only an error."""

import pytest

from panel.services import settings


@pytest.fixture(autouse=True)
def billing_enabled(rolled_back_app):
    settings.update({"billing_enabled": True})
