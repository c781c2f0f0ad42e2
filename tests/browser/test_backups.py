"""Backups in a real browser: one is made and restored while its page stays open; a policy is written by keyboard. And
how other windows follow."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.running_installation import CUSTOMER, sign_in
from tests.browser.windows import collect_console_errors
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.processes]

ADMIN_PATH = "/api/v1/hypervisor/backup-storages"
MAX_TABS = 30
FOLLOW_TIMEOUT_MS = 5_000
"""The benchmark `live_events` measures the second within which windows follow; this machine may be busy."""


@pytest.fixture(scope="module")
def destination(running_installation, tmp_path_factory):
    """A storage for the backups of the installation."""
    token = running_installation.run_panel("token", "admin").strip()
    body = {"name": "backups-1", "storage_type": "local", "config": {"path": str(tmp_path_factory.mktemp("backups"))}}
    status, answer = running_installation.call("POST", ADMIN_PATH, body, token)
    assert status < 300, answer


def focus_by_tab(page, name):
    """Press Tab until the field with this name has the focus."""
    for _number in range(MAX_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == name:
            return
    raise AssertionError(f"{name} is not reached.")


def test_backup_is_made_restored_and_scheduled(page, running_installation, destination, screenshot):
    customer = running_installation.customer
    instance, task = customer.deploy()
    customer.wait_for_task(task)
    name = customer.call("GET", f"/api/instance/{instance}")["display_name"]
    sign_in(page, running_installation, CUSTOMER)
    page.goto(f"{running_installation.url}/instances/{instance}")
    page.get_by_role("link", name="Backups", exact=True).last.click()
    expect(page.get_by_text("No backup yet")).to_be_visible()
    page.locator("#back-up [name=name]").fill("before the upgrade")
    page.get_by_role("button", name="Back up now").click()
    row = page.get_by_role("row", name=re.compile("before the upgrade"))
    expect(row).to_be_visible()
    timeline = page.get_by_role("region", name="Timeline")
    timeline.locator("summary").press("Enter")
    page.evaluate("window.isSamePage = true")
    expect(row).to_contain_text("Complete")
    expect(timeline.locator("li").last).to_contain_text("Full")
    expect(timeline.locator("details"), "polls leave it open").to_have_attribute("open", "")
    expect(row).to_contain_text("Consistent")
    assert page.evaluate("window.isSamePage"), "the page was not reloaded"
    screenshot("tab")

    row.get_by_role("button", name="Actions for before the upgrade").click()
    row.get_by_role("link", name="Restore").click()
    page.get_by_role("button", name="Restore backup").click()
    expect(page.locator("#typed")).to_be_focused()
    page.locator("#typed").fill(name)
    screenshot("restore")
    page.locator("#typed").press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Restore requested.")
    expect(page.get_by_role("row", name=re.compile("before the upgrade"))).to_be_visible()
    expect(page.get_by_role("region", name="Running task")).to_have_count(0)
    [restore] = [row for row in customer.call("GET", "/api/tasks")["data"] if row["kind"] == "backup_restore"]
    assert customer.wait_for_task(restore["id"])["status"] == "completed"
    assert customer.call("GET", f"/api/instance/{instance}")["state"] == "running"

    page.goto(f"{running_installation.url}/backup-policies/new")
    count_after_a_year = page.locator("#simulation tbody tr").last.locator("td").nth(1)
    expect(count_after_a_year).to_have_text("7")
    page.locator("[name=name]").focus()
    page.keyboard.type("nightly")
    focus_by_tab(page, "retention_count")
    page.keyboard.press("Control+a")
    page.keyboard.type("30")
    expect(page.locator("#simulation")).to_contain_text("(30 backups)")
    expect(page.locator("[name=retention_count]")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowDown")
    expect(page.locator("[name=retention_count]")).to_be_hidden()
    expect(count_after_a_year).not_to_have_text("30")
    focus_by_tab(page, "keep_daily")
    screenshot("simulation")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="nightly")).to_be_visible()
    page.locator(f"[name=instance_ids][value='{instance}']").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.locator("#detach")).to_contain_text(name)


def test_volume_is_backed_up_and_restored(page, running_installation, destination, screenshot):
    token, customer = running_installation.run_panel("token", "admin").strip(), running_installation.customer

    def call_admin(path, body):
        status, answer = running_installation.call("POST", f"/api/v1{path}", body, token)
        assert status < 300, answer
        return answer["data"]

    call_admin("/system/settings", {"billing_enabled": True})
    group = call_admin("/volume/plan-groups", {"name": "ssd"})["id"]
    plan = call_admin("/volume/plans", {"name": "small", "volume_plan_group_id": group, "size": 1})["id"]
    [location] = customer.call("GET", "/api/storage/volumes/create")["hypervisor_groups"]
    body = {"name": "data", "volume_plan_id": plan, "hypervisor_group_id": location["id"]}
    volume = customer.call("POST", "/api/storage/volumes", body)["volume"]["id"]
    sign_in(page, running_installation, CUSTOMER)
    page.goto(f"{running_installation.url}/volumes/{volume}")
    expect(page.get_by_text("Available", exact=True)).to_be_visible()
    page.get_by_role("button", name="Back up now").click()
    row = page.get_by_role("row", name=re.compile("data 20"))
    expect(row).to_contain_text("Complete")
    screenshot("volume")
    row.get_by_role("button", name=re.compile("Actions for data")).click()
    expect(row.get_by_role("link", name="Create volume from backup")).to_be_visible()
    screenshot("menu")
    row.get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    expect(page.locator("#toasts")).to_contain_text("Restore requested.")
    page.goto(f"{running_installation.url}/volumes/backups")
    expect(page.get_by_role("row", name=re.compile("data 20"))).to_contain_text("Complete")
    screenshot("list")


def test_other_window_follows_a_power_action(page, running_installation, console_errors, screenshot):
    """The windows share one stream of changes. Without it, the list would ask again after fifteen seconds."""
    customer = running_installation.customer
    instance, task = customer.deploy()
    customer.wait_for_task(task)
    sign_in(page, running_installation, CUSTOMER)
    page.goto(f"{running_installation.url}/instances/{instance}")
    other = collect_console_errors(page.context.new_page(), console_errors)
    other.goto(f"{running_installation.url}/instances")
    row = other.get_by_role("row").filter(has=other.locator(f"a[href='/instances/{instance}']"))
    expect(row).to_contain_text("Running")
    wait_until(lambda: other.evaluate("document.documentElement.dataset.live") == "open", "the stream of changes")
    page.get_by_role("button", name="Power off").click()
    page.locator("#confirm-yes").click()
    expect(page.get_by_text("Power off requested.")).to_be_visible()
    wait_until(lambda: customer.call("GET", f"/api/instance/{instance}")["state"] == "stopped", "the power off")
    expect(row).to_contain_text("Stopped", timeout=FOLLOW_TIMEOUT_MS)
    expect(page.get_by_text("Power off finished")).to_be_visible()
    screenshot("finished")
    streams = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/live?')).length"
    assert other.evaluate(streams) == 0, "the window that opened last has no stream of its own"
    other.close()
