"""A complete installation for a test, without and with a customer's token."""

from tests.support.panel_processes import customer, fresh_installation, installation, installation_settings  # noqa: F401
