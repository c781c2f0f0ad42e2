"""Fixtures of the tests of the router."""

import pytest

from tests.sandbox_router.lab import Lab


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)
