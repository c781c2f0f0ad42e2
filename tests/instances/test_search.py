"""The search syntax: parsing, and results in both lists and both APIs."""

import pytest

from panel.core.db import session
from panel.services import projects
from panel.services.instances.search import Term, parse


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("web", [Term("", "web")]),
        ("  web   shop ", [Term("", "web"), Term("", "shop")]),
        ("name:web state:running", [Term("name", "web"), Term("state", "running")]),
        ("-tag:prod", [Term("tag", "prod", True)]),
        ("-web", [Term("", "web", True)]),
        ("NAME:Web", [Term("name", "Web")]),
        ('name:"big one"', [Term("name", "big one")]),
        ('"big one" x', [Term("", "big one"), Term("", "x")]),
        ('-name:"big one"', [Term("name", "big one", True)]),
        ('name:"open end', [Term("name", "open end")]),
        ('"http://x"', [Term("", "http://x")]),
        ("ip:10.0.", [Term("ip", "10.0.")]),
        ("ip:fd99::1", [Term("ip", "fd99::1")]),
        ("fd99::1", [Term("", "fd99::1")]),
        ("dead:beef::", [Term("", "dead:beef::")]),
        ("52:54:0a:1b:2c:3d", [Term("", "52:54:0a:1b:2c:3d")]),
        ("name:", []),
        ("-", []),
        ('""', []),
        ("web-1", [Term("", "web-1")]),
        ("a:b:c", [Term("", "a:b:c")]),
        ("", []),
    ],
)
def test_search_text_is_parsed_into_terms(text, terms):
    assert parse(text) == terms


@pytest.fixture
def searchable_instances(cast):
    """Three instances of the owner and one of the outsider, by display name."""
    instances_by_name = {}
    for name, tags, on in (
        ("web-1", ["prod", "web"], True),
        ("web-2", ["web"], False),
        ("big one", ["prod-old"], True),
    ):
        instances_by_name[name] = instance = cast.instance(display_name=name, hostname=name.replace(" ", "-"))
        instance.tags, instance.deployed, instance.power = tags, True, "on" if on else "off"
    instances_by_name["foreign"] = cast.instance("outsider", display_name="web-9")
    instances_by_name["web-1"].image_id = cast.image.id
    instances_by_name["big one"].project_id = projects.create(cast.owner, name="Old shop").id
    session.commit()
    return instances_by_name


SEARCH_CASES = {
    "": {"web-1", "web-2", "big one"},
    "web": {"web-1", "web-2"},
    "WEB web-1": {"web-1"},
    "name:web -tag:prod": {"web-2"},
    "tag:prod": {"web-1"},
    "tag:PROD": {"web-1"},
    "-tag:prod": {"web-2", "big one"},
    "tag:web tag:prod": {"web-1"},
    'tag:"': {"web-1", "web-2", "big one"},
    "tag:%": set(),
    "state:running": {"web-1", "big one"},
    "state:run": {"web-1", "big one"},
    "-state:running": {"web-2"},
    "ip:10.9.": {"web-1", "web-2", "big one"},
    "ip:10.8.": set(),
    "-ip:10.9.": set(),
    "fd99::": {"web-1", "web-2", "big one"},
    "location:labor": {"web-1", "web-2", "big one"},
    "plan:S": {"web-1", "web-2", "big one"},
    "-plan:S": set(),
    "image:debian": {"web-1"},
    "-image:debian": {"web-2", "big one"},
    "project:shop": {"big one"},
    "-project:shop": {"web-1", "web-2"},
    'name:"big one"': {"big one"},
    "name:": {"web-1", "web-2", "big one"},
    "nothing": set(),
}


@pytest.mark.parametrize(("search", "expected_names"), SEARCH_CASES.items())
def test_customer_search_finds_instances(api_as, searchable_instances, search, expected_names):
    rows = api_as("owner", "GET", "/api/instances", query_string={"search": search}).json["data"]
    assert {row["display_name"] for row in rows} == expected_names


@pytest.mark.parametrize(
    ("search", "expected_names"),
    [
        ("web", {"web-1", "web-2", "web-9"}),
        ("owner:outsider", {"web-9"}),
        ("-owner:outsider", {"web-1", "web-2", "big one"}),
        ("node:node-1 web", {"web-1", "web-2", "web-9"}),
        ("node:other", set()),
    ],
)
def test_operator_search_by_owner_and_node(api_as, searchable_instances, search, expected_names):
    rows = api_as("admin", "GET", "/api/v1/instances", query_string={"search": search}).json["data"]
    assert {row["display_name"] for row in rows} == expected_names


@pytest.mark.parametrize(
    ("search", "message"),
    [("color:red", "There is no key color"), ("state:sleeping", "There is no state sleeping"), ("owner:x", "no key")],
)
def test_search_with_unknown_key_or_state_is_refused(api_as, browser_as, searchable_instances, search, message):
    answer = api_as("owner", "GET", "/api/instances", query_string={"search": search})
    assert answer.status_code == 422
    assert message in answer.json["errors"]["search"][0]
    page = browser_as("owner").get("/instances", query_string={"search": search})
    assert page.status_code == 200
    assert message in page.text
    assert "web-1" not in page.text


def test_operator_search_with_unknown_key_is_refused(api_as, browser_as, searchable_instances):
    assert api_as("admin", "GET", "/api/v1/instances?search=color:red").status_code == 422
    page = browser_as("admin").get("/admin/instances?search=color:red").text
    assert "There is no key color" in page
    assert "owner, node" in page


def test_lists_explain_search_syntax(browser_as, searchable_instances):
    assert "owner:ada" not in browser_as("owner").get("/instances").text
    assert "tag:prod" in browser_as("owner").get("/instances").text
    assert "owner:ada" in browser_as("admin").get("/admin/instances").text


def test_palette_search_with_unknown_key_does_not_fail(browser_as, searchable_instances):
    assert browser_as("owner").get("/search?q=color:red").status_code == 200
    assert "web-1" in browser_as("owner").get("/search?q=tag:prod").text


def test_search_has_constant_query_count(api_as, searchable_instances, queries):
    api_as("owner", "GET", "/api/instances")
    query_counts = set()
    for search in ("web", "tag:prod", "project:shop -image:debian ip:10. state:running"):
        queries.clear()
        api_as("owner", "GET", "/api/instances", query_string={"search": search})
        query_counts.add(len(queries))
    assert len(query_counts) == 1
