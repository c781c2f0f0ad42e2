"""Fixtures of the billing tests."""

from tests.support.billing_clock import billing_enabled, set_clock  # noqa: F401  (fixtures)
