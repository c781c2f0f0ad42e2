"""Billing switched on, and a clock that tests move."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Setting
from panel.services import settings


@pytest.fixture
def billing_enabled(rolled_back_app):
    """Customers are charged."""
    session.merge(Setting(name="billing_enabled", value=True))
    session.commit()
    settings.invalidate()
    yield
    settings.invalidate()


@pytest.fixture
def set_clock(monkeypatch):
    """Sets the clock."""
    return lambda moment: monkeypatch.setattr(clock, "now", lambda: moment)
