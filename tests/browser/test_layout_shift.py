"""Nothing moves when a task starts and ends: the score of layout shifts, as browsers compute it."""

import pytest
from playwright.sync_api import expect

from panel.core.db import session
from panel.models import Instance
from panel.services import instances
from tests.browser.readability_site import VIEWPORTS, ReadabilitySite, open_page, site  # noqa: F401  (fixtures)

pytestmark = pytest.mark.browser

MAX_LAYOUT_SHIFT = 0.01
OBSERVE_SCRIPT = """() => {
    window.shifts = [];
    const describe = ({ node }) => (node?.outerHTML || node?.textContent || "").slice(0, 100);
    const add = (entries) => {
        for (const { value, hadRecentInput, sources } of entries) {
            if (!hadRecentInput) window.shifts.push([value, ...sources.map(describe)]);
        }
    };
    const observer = new PerformanceObserver((list) => add(list.getEntries()));
    observer.observe({ type: "layout-shift" });
    window.listShifts = () => (add(observer.takeRecords()), window.shifts);
}"""
RELOAD_SCRIPT = "() => document.dispatchEvent(new CustomEvent('changed'))"
"""What an action of the page does: live parts reload."""
SETTLE_MS = 300


@pytest.mark.parametrize("size", VIEWPORTS)
def test_layout_stays_when_a_task_starts_and_ends(site, open_page, size):
    """Pages that show a task beside other things. Lists of tasks have a new row at their top."""
    page, shifts = open_page(size), {}
    with site.app.app_context():
        site.run_tasks()  # what the site has queued
    for path in ("/", "/instances", site.paths["instance"]):
        page.goto(site.url + path)
        page.evaluate(OBSERVE_SCRIPT)
        change(page, site, start_task, open_tasks=1)
        change(page, site, ReadabilitySite.run_tasks, open_tasks=0)
        shifts[path] = page.evaluate("() => window.listShifts()")
    large = {path: found for path, found in shifts.items() if sum(value for value, *_ in found) > MAX_LAYOUT_SHIFT}
    assert large == {}


def change(page, site, function, open_tasks):
    """Change the tasks of the site, and wait until the page shows it."""
    with site.app.app_context():
        function(site)
    page.evaluate(RELOAD_SCRIPT)
    expect(page.locator("#recent-tasks-button .badge-count")).to_have_count(open_tasks)
    slot = page.locator(".latest-task")
    if slot.count():
        expect(slot).to_have_attribute("aria-label", "Running task" if open_tasks else "Latest task")
    page.wait_for_timeout(SETTLE_MS)


def start_task(site):
    """Request the restart of the instance, which no worker begins yet."""
    instance = session.get(Instance, site.paths["instance"].rpartition("/")[2])
    instances.run_power_action(instance, "restart", actor=instance.account.email)
    session.commit()
