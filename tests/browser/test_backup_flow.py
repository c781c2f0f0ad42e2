"""A customer's way through backups in a real browser, with a real guest: a policy's schedule makes one, a file is
downloaded from it, and the machine is restored."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.browser.lab_pages import PAGE_TIMEOUT_MS, sign_in
from tests.guests import lab_backups
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.guest, pytest.mark.slow_proof("backups")]

SCHEDULE_MARGIN = timedelta(seconds=30)
"""How long after the policy was written its time is, at least."""


@pytest.fixture
def instance(lab, tmp_path):
    """An instance with a file and a name that is typed to restore it. A restore gives it other disks."""
    lab_backups.add_destination(lab, tmp_path / "backups", "flow")
    instance = lab.create(display_name="Shop", hostname="shop.example.com")
    lab.install(instance, ssh_keys=[lab.key_id])
    lab.wait_until_booted(instance)
    yield lab.get_instance(instance)
    lab.destroy(instance)


def test_scheduled_backup_is_browsed_and_restored(page, lab, instance, screenshot):
    ip = instance["primary_public_ip"]["ip"]
    lab.ssh(ip, "echo kept > /root/kept; sync")
    sign_in(page, lab)
    write_policy(page, lab, instance)
    lab.installation.run_panel("image", "build", "backup-files")
    list_backups = lambda: lab.call("GET", f"/api/instance/{instance['id']}/backups")["data"]  # noqa: E731
    wait_until(list_backups, "the scheduled backup")

    page.goto(f"{lab.installation.url}/instances/{instance['id']}/backups")
    row = page.get_by_role("row", name=re.compile("every day 20"))
    expect(row).to_contain_text("Complete", timeout=PAGE_TIMEOUT_MS)
    screenshot("backup")
    lab.ssh(ip, "echo lost > /root/kept; sync")
    row.get_by_role("button", name=re.compile("Actions for every day")).click()
    row.get_by_role("link", name="Show files").click()
    assert download_file(page, screenshot) == "kept\n"
    page.get_by_role("button", name="Close files").click()

    page.goto(f"{lab.installation.url}/instances/{instance['id']}/backups")
    row.get_by_role("button", name=re.compile("Actions for every day")).click()
    row.get_by_role("link", name="Restore").click()
    page.locator("#typed").fill(instance["display_name"])
    page.get_by_role("button", name="Restore backup").click()
    expect(page.locator("#toasts")).to_contain_text("Restore requested.")
    tasks = [task for task in lab.call("GET", "/api/tasks")["data"] if task["resource_id"] == instance["id"]]
    [task] = [task for task in tasks if task["kind"] == "backup_restore"]
    lab.wait_for_task(task["id"])
    assert lab.ssh(ip, "cat /root/kept") == "kept\n"
    screenshot("restored")


def write_policy(page, lab, instance):
    """Write a policy that runs within two minutes, and attach the instance."""
    page.goto(f"{lab.installation.url}/backup-policies/new")
    page.locator("[name=name]").fill("every day")
    page.locator("[name=full_backup_time]").fill(f"{datetime.now(UTC) + SCHEDULE_MARGIN + timedelta(minutes=1):%H:%M}")
    page.get_by_role("button", name="Create policy").click()
    expect(page.get_by_role("heading", name="every day")).to_be_visible()
    page.locator(f"[name=instance_ids][value='{instance['id']}']").check()
    page.get_by_role("button", name="Attach selected").click()
    expect(page.locator("#detach")).to_contain_text(instance["display_name"])


def download_file(page, screenshot):
    """Open the files of the backup and return the content of the one in root's folder."""
    page.get_by_role("button", name="Open files").click()
    page.get_by_role("row", name=re.compile("ext4")).get_by_role("link").click(timeout=PAGE_TIMEOUT_MS)
    page.locator("#listing").get_by_role("link", name="root").click(timeout=PAGE_TIMEOUT_MS)
    page.get_by_role("button", name="Download kept").click()
    link = page.get_by_role("link", name="Save kept")
    expect(link).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    screenshot("files")
    with page.expect_download() as download:
        link.click()
    return download.value.path().read_text()
