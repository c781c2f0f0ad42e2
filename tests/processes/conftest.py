"""A complete installation for a test, without and with a customer's token."""

from tests.support.panel_processes import customer, fresh_installation, installation, installation_settings  # noqa: F401

# For tests that were begun before these moved. To be removed in 0.2.0.
from tests.support.panel_processes import Installation  # noqa: F401  # isort: skip
from tests.support.ports import find_free_port  # noqa: F401  # isort: skip
from tests.support.waiting import wait_until  # noqa: F401  # isort: skip
