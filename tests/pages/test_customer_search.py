"""The search of the customers' command palette: every kind of own resources, nothing of others, permitted actions."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Image, Iso, SecurityGroup, Task, UserScript
from panel.services import dashboard
from panel.services.access import get_for_account
from tests.support.html_pages import PARTIAL_HEADERS
from tests.support.instances import create_deployed_instance


@pytest.fixture
def instance(cast, run_tasks):
    return create_deployed_instance(cast, run_tasks, display_name="zebra-shop", hostname="zebra.example.com")


@pytest.fixture
def paths(cast, instance):
    """The paths of the owner's rows named zebra."""
    rows = [
        SecurityGroup(name="zebra-group", account_id=cast.owner.id),
        UserScript(name="zebra-script", type="bash", content="true", account_id=cast.owner.id),
        Iso(name="zebra-iso", filename="zebra.iso", url="https://example.com/zebra.iso", account_id=cast.owner.id),
        Image(
            name="zebra-image",
            label="zebra-image",
            distro="Debian",
            version="12",
            purpose="user",
            filename="zebra.qcow2",
            account_id=cast.owner.id,
        ),
    ]
    session.add_all(rows)
    session.commit()
    group, script, _iso, image = rows
    return {
        f"/instances/{instance.id}",
        f"/security-groups/{group.id}",
        f"/user-scripts/{script.id}",
        f"/images/{image.id}",
        "/isos?search=zebra-iso",
    }


def search(browser_as, caller, text):
    return browser_as(caller).get("/search", query_string={"q": text}, headers=PARTIAL_HEADERS).text


def test_owner_finds_all_kinds_and_others_nothing(browser_as, paths):
    text = search(browser_as, "owner", "zebra")
    assert [path for path in paths if f'href="{path}"' not in text] == []
    assert search(browser_as, "outsider", "zebra").count("href=") == 0


def test_task_and_instance_are_found_by_id_within_account(browser_as, instance):
    task_id = session.scalar(select(Task.id).where(Task.resource_id == instance.id))
    for text, path in ((task_id, f"/tasks/{task_id}"), (instance.id, f"/instances/{instance.id}")):
        assert f'href="{path}"' in search(browser_as, "owner", text)
        for caller in ("outsider", "member"):  # the member sees chosen instances only
            assert path not in search(browser_as, caller, text)


def test_results_offer_only_permitted_actions(browser_as, instance):
    owner, viewer = (search(browser_as, caller, "zebra-shop") for caller in ("owner", "viewer"))
    assert f"/instances/{instance.id}/power/restart" in owner
    assert f"/instances/{instance.id}/console" in owner
    assert f"/instances/{instance.id}/power/start" not in owner  # it is running
    assert f'href="/instances/{instance.id}"' in viewer
    assert "<form" not in viewer


def test_search_takes_constant_number_of_queries(rolled_back_app, cast, instance, queries):
    def count_selects():
        queries.clear()
        list(dashboard.search(get_for_account(cast.owner), "zebra", 8))
        return len([query for query in queries if query.startswith("SELECT")])

    count_selects()  # loads the expired account
    few = count_selects()
    for number in range(4):
        cast.instance(display_name=f"zebra-{number}")
    assert count_selects() == few <= 2 * len(dashboard.SEARCHABLE_KINDS)


@pytest.mark.parametrize(("caller", "path"), [("owner", "/search"), ("admin", "/admin/search")])
def test_palette_offers_themes(browser_as, caller, path):
    def list_themes(query, **options):
        return re.findall(r'data-set-theme="(\w+)"', browser_as(caller).get(f"{path}?q={query}", **options).text)

    assert list_themes("theme", headers=PARTIAL_HEADERS) == ["light", "dark", "auto"]
    assert list_themes("dark", headers=PARTIAL_HEADERS) == ["dark"]
    assert list_themes("nothing-has-this-name", headers=PARTIAL_HEADERS) == []
    page = browser_as(caller).get(f"{path}?q=dark").text
    assert 'search-result-link" type="button"' not in page, "the page has no script that applies it"
