"""The navigation: groups, the pages of the account menu, and the numbers of what needs attention."""

from datetime import timedelta

import pytest
from lxml import html

from panel.core import clock
from panel.core.db import session
from panel.models import Task
from panel.web import marks

ENTRIES_XPATH = "//aside//a[contains(@class, 'nav-link')]"


def open_page(browser_as, caller, path="/"):
    return html.fromstring(browser_as(caller).get(path).text)


def list_counts(page):
    """Return the numbers beside the entries of the navigation, by path."""
    badges = {link.get("href"): link.find_class("badge") for link in page.xpath(ENTRIES_XPATH)}
    return {path: badge[0].text for path, badge in badges.items() if badge}


def test_account_pages_are_in_the_account_menu(browser_as):
    page = open_page(browser_as, "owner")
    menu = {link.get("href") for link in page.xpath("//header//a[contains(@class, 'dropdown-item')]")}
    paths = {"/team", "/ssh-keys", "/api-tokens", "/webhooks", "/profile"}
    assert paths <= menu
    assert not paths & {link.get("href") for link in page.xpath(ENTRIES_XPATH)}


def test_group_of_current_page_is_open(browser_as):
    """Groups for rare pages are closed, so that the navigation fits a window of 900 pixels."""
    for path, is_open in (("/admin", False), ("/admin/plans", True)):
        page = open_page(browser_as, "admin", path)
        (group,) = page.xpath("//aside//details[summary[starts-with(normalize-space(), 'Catalog')]]")
        assert (group.get("open") is not None) == is_open


def test_navigation_counts_rows_that_need_attention(browser_as, cast, queries):
    assert list_counts(open_page(browser_as, "owner")) == {}
    queries.clear()
    open_page(browser_as, "owner", "/images")
    query_count = len(queries)
    for _ in range(3):
        cast.instance().last_error = "The hypervisor refused it."
    cast.instance("outsider").last_error = "The hypervisor refused it."
    session.commit()
    queries.clear()
    assert list_counts(open_page(browser_as, "owner", "/images")) == {"/instances": "3"}
    assert len(queries) <= query_count


@pytest.mark.parametrize(("caller", "path"), [("owner", "/ssh-keys/new"), ("admin", "/admin/isos/new")])
def test_layout_reads_session_access_numbers_and_recent_tasks(browser_as, queries, caller, path):
    browser = browser_as(caller)
    browser.get(path)
    queries.clear()
    assert "nav-link" in browser.get(path).text
    assert len(queries) <= 4


def test_operators_navigation_counts_hypervisors_and_failed_tasks(browser_as, cast):
    cast.node.status = "down"
    for hours in (1, 30):
        moment = clock.now() - timedelta(hours=hours)
        session.add(
            Task(
                kind="instance_poweroff",
                resource_type="instance",
                resource_id=cast.node.id,
                status="failed",
                finished_at=moment,
            )
        )
    session.commit()
    assert list_counts(open_page(browser_as, "admin", "/admin")) == {"/admin/hypervisors": "1", "/admin/tasks": "1"}


def test_lists_show_marks_of_systems_and_flags_of_locations(browser_as, cast):
    cast.instance().image = cast.image
    session.commit()
    page = open_page(browser_as, "owner", "/instances")
    (row,) = page.xpath("//tr[starts-with(@id, 'instance-')]")
    (flag,) = row.find_class("flag")
    assert browser_as("owner").get(flag.get("src")).mimetype == "image/svg+xml"
    (mark,) = row.find_class("os-debian")
    assert browser_as("owner").get(mark[0].get("href").partition("#")[0]).status_code == 200


@pytest.mark.parametrize(
    ("distro", "mark"),
    [("Rocky Linux", "rockylinux"), ("Red Hat Enterprise Linux", "redhat"), ("Windows", None), ("", None)],
)
def test_systems_without_a_mark_have_a_neutral_icon(distro, mark):
    assert marks.find_mark(distro) == mark


@pytest.mark.parametrize("country", ["", "QQ", "../", "."])
def test_unknown_country_has_no_flag(rolled_back_app, country):
    assert marks.find_flag_url(country) is None
