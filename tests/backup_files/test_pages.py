"""The page with the files of a backup."""

import html
import re

import pytest

from panel.core.db import session
from panel.models import BackupFileRequest, BackupFileSession, Task
from panel.services.backup_files import sessions
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline

ROOT = "disk-1-partition-1"


@pytest.fixture
def browser(browser_as):
    return browser_as("owner")


@pytest.fixture
def page_path(backup):
    return f"/backups/{backup['id']}/files"


@pytest.fixture
def opened_page(browser, page_path, run_tasks):
    assert browser.post(f"{page_path}/open").status_code == 303
    page = browser.get(page_path)
    assert ", every 2s" in page.text
    run_tasks()
    return page_path


def read(page):
    """Return the visible text of a page."""
    assert page.status_code == 200, page.text
    return re.sub(r"\s+", " ", re.sub(r"<(script|svg).*?</\1>|<[^>]+>", " ", page.text, flags=re.DOTALL))


def test_files_are_opened_listed_and_downloaded(browser, opened_page, run_tasks, machine):
    page = browser.get(opened_page)
    assert 'hx-trigger="load"' in page.text
    listing = browser.post(f"{opened_page}/list", headers=PARTIAL_HEADERS)
    assert f"path={ROOT}" in listing.text
    assert "ext4" in listing.text
    waiting = browser.post(f"{opened_page}/list", data={"path": f"{ROOT}/etc"}, headers=PARTIAL_HEADERS)
    assert 'hx-trigger="every 1s"' in waiting.text
    run_tasks()
    listing = browser.post(f"{opened_page}/list", data={"path": f"{ROOT}/etc"}, headers=PARTIAL_HEADERS)
    assert "hosts" in listing.text
    assert "hx-trigger" not in listing.text
    page = browser.get(f"{opened_page}?path={ROOT}/etc")
    assert 'aria-label="Download hosts"' in page.text
    outline = HtmlOutline(page.text)
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    assert browser.post(f"{opened_page}/download", data={"path": f"{ROOT}/etc/hosts"}).status_code == 303
    assert "Being prepared" in read(browser.get(f"{opened_page}/downloads", headers=PARTIAL_HEADERS))
    run_tasks()
    downloads = browser.get(f"{opened_page}/downloads", headers=PARTIAL_HEADERS)
    [address] = re.findall(r'href="([^"]+/files/downloads/[^"]+)"', downloads.text)
    assert browser.get(address).data == b"127.0.0.1 localhost\n"
    answer = browser.post(f"{opened_page}/close")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/instances/{machine.id}/backups")
    run_tasks()
    assert session.query(BackupFileSession).count() == 0
    assert browser.get(address).status_code == 404


def test_page_works_without_javascript(browser, opened_page, run_tasks):
    assert ROOT in read(browser.post(f"{opened_page}/list"))
    browser.post(f"{opened_page}/list", data={"path": ROOT})
    run_tasks()
    assert "etc" in read(browser.get(f"{opened_page}?path={ROOT}"))


def test_folder_in_parts_and_unusual_names(browser, opened_page, run_tasks, tree):
    for number in range(501):
        (tree / "etc" / f"{number:04}<b>&'\"").touch()
    browser.post(f"{opened_page}/list", data={"path": f"{ROOT}/etc"})
    run_tasks()
    page = browser.get(f"{opened_page}?path={ROOT}/etc")
    assert "0000&lt;b&gt;&amp;" in page.text
    assert "<b>" not in page.text
    next_url = html.unescape(re.search(r'id="next" href="([^"]+)"', page.text)[1])
    assert browser.get(next_url).status_code == 200
    browser.post(f"{opened_page}/list", data={"path": f"{ROOT}/etc", "after": "0499<b>&'\""})
    run_tasks()
    page = browser.get(next_url)
    assert "hosts" in page.text
    assert "First entries" in page.text


def test_failures_are_shown(browser, opened_page, run_tasks, helper):
    browser.post(f"{opened_page}/list", data={"path": f"{ROOT}/missing"})
    run_tasks()
    assert "There is no such file or folder" in read(browser.get(f"{opened_page}?path={ROOT}/missing"))
    browser.post(f"{opened_page}/download", data={"path": f"{ROOT}/missing"})
    run_tasks()
    assert "There is no such file or folder" in read(browser.get(opened_page))
    assert browser.post(f"{opened_page}/download", data={"path": f"{ROOT}/missing"}).status_code == 404
    row = session.query(BackupFileSession).one()
    row.volumes = [{**helper[0], "error": "encrypted"}]
    session.query(BackupFileRequest).delete()
    session.commit()
    text = read(browser.post(f"{opened_page}/list"))
    assert "Encrypted: the panel cannot read it" in text


def test_reasons_are_shown_before_opening(browser, page_path, monkeypatch):
    monkeypatch.setattr(sessions, "UNSUPPORTED_DRIVERS", ("simulated",))
    assert "Files of backups cannot be read on this hypervisor." in read(browser.get(page_path))
    assert browser.post(f"{page_path}/open").status_code == 422


def test_failed_opening_is_shown(browser, page_path, run_tasks):
    browser.post(f"{page_path}/open")
    task = session.query(Task).filter_by(kind="backup_files_open").one()
    browser.post(f"/tasks/{task.id}/cancel")
    run_tasks()
    assert "The files could not be opened" in read(browser.get(page_path))


def test_role_without_restore_does_not_see_files(browser_as, opened_page):
    operations = ("/open", "/list", "/download", "/close")
    for method, operation in (("GET", ""), *(("POST", operation) for operation in operations)):
        answer = browser_as("viewer").open(f"{opened_page}{operation}", method=method)
        assert answer.status_code == 403, operation
        assert browser_as("outsider").open(f"{opened_page}{operation}", method=method).status_code == 404


def test_listing_makes_constant_number_of_queries(browser, opened_page, run_tasks, tree, queries):
    counts = []
    for count in (2, 40):
        folder = tree / f"f{count}"
        folder.mkdir()
        for number in range(count):
            (folder / str(number)).touch()
        place = f"{opened_page}?path={ROOT}/{folder.name}"
        browser.post(f"{opened_page}/list", data={"path": f"{ROOT}/{folder.name}"})
        run_tasks()
        browser.get(place)
        queries.clear()
        browser.get(place)
        counts.append(len(queries))
    assert counts[0] == counts[1]
