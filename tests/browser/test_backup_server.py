"""A destination on a backup server in a real browser: its fingerprint is read, and the form keeps what was typed."""

import pytest
from playwright.sync_api import expect

from tests.browser.running_installation import OPERATOR, sign_in
from tests.support.rbs_server import rbs_server  # noqa: F401  (fixture)

pytestmark = [pytest.mark.browser, pytest.mark.processes]

NAME = "pbs-1"


@pytest.fixture
def removed_destination(running_installation):
    """Remove the destination after the test: others of the installation use the oldest one."""
    yield
    token = running_installation.run_panel("token", "admin").strip()
    _, answer = running_installation.call("GET", "/api/v1/hypervisor/backup-storages", None, token)
    (destination_id,) = (row["id"] for row in answer["data"] if row["name"] == NAME)
    path = f"/api/v1/hypervisor/backup-storage/{destination_id}"
    assert running_installation.call("DELETE", path, None, token)[0] == 200


def test_destination_is_added_with_the_fingerprint(
    page, running_installation, removed_destination, rbs_server, screenshot
):
    sign_in(page, running_installation, OPERATOR)
    page.goto(f"{running_installation.url}/admin/backup-destinations/new")
    page.get_by_label("Kind").select_option("rbs")
    page.get_by_label("Name", exact=True).fill(NAME)
    for name in ("host", "port", "datastore", "auth_id", "token_secret"):
        page.locator(f"[name={name}]").fill(str(rbs_server.config[name]))
    page.get_by_role("button", name="Read fingerprint").click()
    expect(page.locator("[name=fingerprint]")).to_have_value(rbs_server.fingerprint)
    expect(page.locator("[name=token_secret]")).to_have_value(rbs_server.config["token_secret"])
    screenshot("form")
    page.get_by_role("button", name="Add destination").click()
    expect(page.get_by_text("Check the privileges of the token")).to_be_visible()
    screenshot("checked")
