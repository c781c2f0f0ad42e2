"""The operators' palette finds what is on the platform (finding M1)."""

import pytest
from sqlalchemy import select

from panel.auth import permissions
from panel.core.db import session
from panel.models import Subnet, Task
from panel.services import platform_search
from tests.instances.test_pages import deployed
from tests.test_pages import PART


@pytest.fixture
def instance(cast, work):
    return deployed(cast, work, display_name="before-upgrade", hostname="shop.example.com")


def find(browse, words):
    return browse("admin").get(f"/admin/search?q={words}", headers=PART).text


def test_an_instance_is_found_by_everything_that_names_it(browse, instance):
    address = f'href="/admin/instances/{instance.id}"'
    for words in ("before-up", instance.id, instance.name, instance.ipv4, "shop.example", "owner@example.com"):
        assert address in find(browse, words), words


def test_everything_else_is_found(browse, cast, instance):
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
        assert f'href="{path}"' in find(browse, words), words
    assert ">Standard<" in find(browse, "S")
    assert 'href="/admin/plans"' in find(browse, "plans")


def test_the_palette_of_operators_pages_searches_the_platform(browse):
    assert 'hx-get="/admin/search"' in browse("admin").get("/admin").text
    assert 'hx-get="/search"' in browse("admin").get("/").text
    assert "hypervisors, tasks by id" in find(browse, "nothing-has-this-name")
    assert browse("owner").get("/admin/search?q=a").status_code == 403


@pytest.mark.parametrize("kind", platform_search.PERMISSIONS)
def test_nothing_is_found_without_the_permission(browse, cast, instance, monkeypatch, kind):
    needed = platform_search.PERMISSIONS[kind]
    less = permissions.OPERATOR_ROLES["full"] - {needed}
    monkeypatch.setitem(permissions.OPERATOR_ROLES, "full", less)
    found = {found for found, _ in platform_search.find("e", 6, lambda name: permissions.operator_may("full", name))}
    assert not {each for each, permission in platform_search.PERMISSIONS.items() if permission == needed} & found
    assert "instance" in found or kind == "instance"


def test_many_rows_cost_as_many_queries_as_few(world, cast, instance, queries):
    def selects():
        queries.clear()
        list(platform_search.find("10.9.0.1", 6, lambda permission: True))
        return len([each for each in queries if each.startswith("SELECT")])

    few = selects()
    for number in range(5):
        cast.instance(display_name=f"more-{number}")
    assert selects() == few <= len(platform_search.PERMISSIONS)


@pytest.mark.parametrize("words", ["%", "_", "'", "a\\", "1:2:3", "....", "ff" * 100])
def test_odd_words_find_nothing_and_break_nothing(browse, instance, words):
    assert browse("admin").get("/admin/search", query_string={"q": words}).status_code == 200
