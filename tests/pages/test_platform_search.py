"""The search of the operators' command palette over the whole platform."""

import pytest
from sqlalchemy import select

from panel.auth import permissions
from panel.core.db import session
from panel.models import Subnet, Task
from panel.services import platform_search
from tests.support.html_pages import PARTIAL_HEADERS
from tests.support.instances import create_deployed_instance


@pytest.fixture
def instance(cast, run_tasks):
    return create_deployed_instance(cast, run_tasks, display_name="before-upgrade", hostname="shop.example.com")


def search(browser_as, text):
    return browser_as("admin").get(f"/admin/search?q={text}", headers=PARTIAL_HEADERS).text


def test_instance_is_found_by_names_ids_and_addresses(browser_as, instance):
    address = f'href="/admin/instances/{instance.id}"'
    for text in ("before-up", instance.id, instance.name, instance.ipv4, "shop.example", "owner@example.com"):
        assert address in search(browser_as, text), text


def test_other_resources_are_found(browser_as, cast, instance):
    task = session.scalar(select(Task.id).where(Task.resource_id == instance.id))
    subnet = session.scalar(select(Subnet.id).where(Subnet.name == "v4"))
    for text, path in (
        ("outsider@", f"/admin/customers/{cast.outsider.id}"),
        ("node-1", f"/admin/hypervisors/{cast.node.id}"),
        (task, f"/admin/tasks/{task}"),
        ("10.9.0", f"/admin/subnets/{subnet}"),
        ("10.9.0.77", f"/admin/subnets/{subnet}"),
        ("tiny", f"/admin/images/{cast.image.id}"),
    ):
        assert f'href="{path}"' in search(browser_as, text), text
    assert ">Standard<" in search(browser_as, "S")
    assert 'href="/admin/plans"' in search(browser_as, "plans")


def test_admin_palette_searches_the_platform(browser_as):
    assert 'hx-get="/admin/search"' in browser_as("admin").get("/admin").text
    assert 'hx-get="/search"' in browser_as("admin").get("/").text
    assert "hypervisors, tasks by ID" in search(browser_as, "nothing-has-this-name")
    assert browser_as("owner").get("/admin/search?q=a").status_code == 403


@pytest.mark.parametrize("kind", platform_search.PLATFORM_KINDS)
def test_search_omits_kinds_without_permission(browser_as, cast, instance, monkeypatch, kind):
    needed = platform_search.PLATFORM_KINDS[kind].permission
    reduced_role = permissions.OPERATOR_ROLES["full"] - {needed}
    monkeypatch.setitem(permissions.OPERATOR_ROLES, "full", reduced_role)
    kinds = {
        kind_name
        for kind_name, _ in platform_search.search(
            "e", 6, lambda name: permissions.has_operator_permission("full", name)
        )
    }
    assert not {kind.name for kind in platform_search.PLATFORM_KINDS.values() if kind.permission == needed} & kinds
    assert "instance" in kinds or needed == platform_search.PLATFORM_KINDS["instance"].permission


def test_search_takes_constant_number_of_queries(rolled_back_app, cast, instance, queries):
    def count_selects():
        queries.clear()
        list(platform_search.search("10.9.0.1", 6, lambda permission: True))
        return len([query for query in queries if query.startswith("SELECT")])

    few = count_selects()
    for number in range(5):
        cast.instance(display_name=f"more-{number}")
    assert count_selects() == few <= len(platform_search.PLATFORM_KINDS)


@pytest.mark.parametrize("text", ["%", "_", "'", "a\\", "1:2:3", "....", "ff" * 100])
def test_search_accepts_special_characters(browser_as, instance, text):
    assert browser_as("admin").get("/admin/search", query_string={"q": text}).status_code == 200
