"""Fixtures of tests with charges: billing enabled, and a clock that tests set."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Setting
from panel.services import settings


@pytest.fixture
def billing_enabled(rolled_back_app):
    """Enable billing until the end of the test."""
    session.merge(Setting(name="billing_enabled", value=True))
    session.commit()
    settings.invalidate()
    yield
    settings.invalidate()


@pytest.fixture
def set_clock(monkeypatch):
    """Return a function that sets the clock of the panel."""
    return lambda moment: monkeypatch.setattr(clock, "now", lambda: moment)
