"""The operators' palette finds what is on the platform (finding M1)."""

import pytest
from sqlalchemy import select

from panel.auth import permissions
from panel.core.db import session
from panel.models import Subnet, Task
from panel.services import platform_search
from tests.instances.test_pages import create_deployed_instance
from tests.test_pages import PARTIAL_HEADERS


@pytest.fixture
def instance(cast, run_tasks):
    return create_deployed_instance(cast, run_tasks, display_name="before-upgrade", hostname="shop.example.com")


def find(browse, words):
    return browse("admin").get(f"/admin/search?q={words}", headers=PARTIAL_HEADERS).text


def test_an_instance_is_found_by_everything_that_names_it(browser_as, instance):
    address = f'href="/admin/instances/{instance.id}"'
    for words in ("before-up", instance.id, instance.name, instance.ipv4, "shop.example", "owner@example.com"):
        assert address in find(browser_as, words), words


def test_everything_else_is_found(browser_as, cast, instance):
    task = session.scalar(select(Task.id).where(Task.resource_id == instance.id))
    subnet = session.scalar(select(Subnet.id).where(Subnet.name == "v4"))
    for words, path in (
        ("outsider@", f"/admin/customers/{cast.outsider.id}"),
        ("node-1", f"/admin/hypervisors/{cast.node.id}"),
        (task, f"/admin/tasks/{task}"),
        ("10.9.0", f"/admin/subnets/{subnet}"),
        ("10.9.0.77", f"/admin/subnets/{subnet}"),
        ("tiny", f"/admin/images/{cast.image.id}"),
    ):
        assert f'href="{path}"' in find(browser_as, words), words
    assert ">Standard<" in find(browser_as, "S")
    assert 'href="/admin/plans"' in find(browser_as, "plans")


def test_the_palette_of_operators_pages_searches_the_platform(browser_as):
    assert 'hx-get="/admin/search"' in browser_as("admin").get("/admin").text
    assert 'hx-get="/search"' in browser_as("admin").get("/").text
    assert "hypervisors, tasks by ID" in find(browser_as, "nothing-has-this-name")
    assert browser_as("owner").get("/admin/search?q=a").status_code == 403


@pytest.mark.parametrize("kind", platform_search.PLATFORM_KINDS)
def test_nothing_is_found_without_the_permission(browser_as, cast, instance, monkeypatch, kind):
    needed = platform_search.PLATFORM_KINDS[kind].permission
    less = permissions.OPERATOR_ROLES["full"] - {needed}
    monkeypatch.setitem(permissions.OPERATOR_ROLES, "full", less)
    found = {
        found
        for found, _ in platform_search.search("e", 6, lambda name: permissions.has_operator_permission("full", name))
    }
    assert not {kind.name for kind in platform_search.PLATFORM_KINDS.values() if kind.permission == needed} & found
    assert "instance" in found or kind == "instance"


def test_many_rows_cost_as_many_queries_as_few(rolled_back_app, cast, instance, queries):
    def selects():
        queries.clear()
        list(platform_search.search("10.9.0.1", 6, lambda permission: True))
        return len([each for each in queries if each.startswith("SELECT")])

    few = selects()
    for number in range(5):
        cast.instance(display_name=f"more-{number}")
    assert selects() == few <= len(platform_search.PLATFORM_KINDS)


@pytest.mark.parametrize("words", ["%", "_", "'", "a\\", "1:2:3", "....", "ff" * 100])
def test_odd_words_find_nothing_and_break_nothing(browser_as, instance, words):
    assert browser_as("admin").get("/admin/search", query_string={"q": words}).status_code == 200
