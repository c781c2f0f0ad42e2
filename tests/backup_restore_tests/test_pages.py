"""Results of restore tests on the pages of customers and operators."""

import re

import pytest

from panel.core.db import session
from panel.models import BackupRestoreTest
from panel.services import backup_restore_tests


@pytest.fixture
def finished_test(backup, run_tasks):
    row = backup_restore_tests.start(backup, actor="test")
    session.commit()
    run_tasks()
    return session.get(BackupRestoreTest, row.id, populate_existing=True)


def read(page):
    assert page.status_code == 200, page.text
    return re.sub(r"\s+", " ", re.sub(r"<(script|svg).*?</\1>|<[^>]+>", " ", page.text, flags=re.DOTALL))


def test_customer_sees_result_and_screenshot(browser_as, machine, finished_test, backup):
    browser = browser_as("owner")
    page = browser.get(f"/instances/{machine.id}/backups")
    assert "Guest agent answered after" in read(page)
    [address] = re.findall(r'href="([^"]+/screenshot)"', page.text)
    image = browser.get(address)
    assert (image.mimetype, image.data[:4]) == ("image/png", b"\x89PNG")
    assert browser_as("outsider").get(address).status_code == 404
    assert browser_as("viewer").get(address).status_code == 403
    assert "/screenshot" not in browser_as("viewer").get(f"/instances/{machine.id}/backups").text


def test_screenshot_without_test_is_missing(browser_as, backup):
    assert browser_as("owner").get(f"/backups/{backup.id}/restore-test/screenshot").status_code == 404


def test_operator_starts_test_and_sees_result(browser_as, backup, run_tasks):
    browser = browser_as("admin")
    page = f"/admin/backups/{backup.id}"
    assert "Not yet" in read(browser.get(page))
    assert browser.post(f"{page}/test").status_code == 303
    assert "every 3s" in browser.get(page).text
    run_tasks()
    assert "Guest agent answered" in read(browser.get(page))
    listing = browser.get("/admin/backup-restore-tests")
    assert "Passed" in read(listing)
    [address] = re.findall(r'href="([^"]+/screenshot)"', listing.text)
    assert browser.get(address).mimetype == "image/png"
    assert "No matching tests" in read(browser.get("/admin/backup-restore-tests?status=failed"))


def test_failed_test_is_on_the_overview(browser_as, finished_test):
    finished_test.status, finished_test.evidence, finished_test.error = (
        "failed",
        None,
        "The guest agent did not answer.",
    )
    session.commit()
    text = read(browser_as("admin").get("/admin"))
    assert "1 restore test failed" in text
    assert finished_test.name in text
    assert "The guest agent did not answer." in read(
        browser_as("admin").get("/admin/backup-restore-tests?status=failed")
    )


def test_list_makes_constant_number_of_queries(browser_as, finished_test, queries):
    browser = browser_as("admin")
    counts = []
    for _ in range(2):
        browser.get("/admin/backup-restore-tests")
        queries.clear()
        browser.get("/admin/backup-restore-tests")
        counts.append(len(queries))
        columns = {
            name: getattr(finished_test, name)
            for name in ("account_id", "instance_id", "backup_id", "name", "backup_at")
        }
        for _ in range(5):
            session.add(
                BackupRestoreTest(
                    **columns,
                    hypervisor_id=finished_test.hypervisor_id,
                    storage_id=finished_test.storage_id,
                    status="passed",
                )
            )
        session.commit()
    assert counts[0] == counts[1]
