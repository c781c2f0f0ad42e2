"""Fixtures of the guest tests; those of the installation are in tests/support/installation.py."""

import pytest

from tests.guests.sandbox_router import start_router
from tests.support.ports import find_free_port


@pytest.fixture(scope="session")
def tiny_image(installation_template):
    """The tiny image as the installation's command line built it: one build for all guest tests."""
    return installation_template.data_dir / "images" / "tiny.qcow2"


@pytest.fixture(scope="session")
def sandbox_options(lab):
    """The options of the SDK: a panel with the image `sandbox`, a node that takes micro VMs, a router and a key."""
    lab.installation.run_panel("image", "build", "sandbox")
    lab.call_admin("POST", "/microvm/profiles", {"hypervisor_id": lab.node})
    bind = f"127.0.0.1:{find_free_port()}"
    lab.installation.env["PANEL_SANDBOX_BIND"] = bind
    start_router(lab)
    key = lab.call("POST", "/api/microvm/api-keys", {"name": "sdk"})["key"]
    return {
        "api_url": f"{lab.installation.url}/api/sbx",
        "api_key": key,
        "sandbox_url": f"http://{bind}",
        "request_timeout": 200,
    }
