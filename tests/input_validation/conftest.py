"""Enable billing: without it, operations of billed resources return only an error. The schedule is known without
Redis."""

import pytest

from panel.core.db import session
from panel.services import settings
from tests.support.operations import recorded_schedule  # noqa: F401  (fixture)


@pytest.fixture(autouse=True)
def billing_enabled(rolled_back_app, recorded_schedule):
    settings.update({"billing_enabled": True})
    session.commit()  # a refused request rolls back what the test has not committed
