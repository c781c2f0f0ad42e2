"""Fixtures of the guest tests; those of the installation are in tests/support/installation.py."""

import pytest


@pytest.fixture(scope="session")
def tiny_image(installation_template):
    """The tiny image as the installation's command line built it: one build for all guest tests."""
    return installation_template.data_dir / "images" / "tiny.qcow2"
