"""Locations without room in the form for a new instance."""

from lxml import html

from panel.core.db import session
from panel.models import HypervisorGroup, PlanGroup
from panel.services import hypervisors, placement
from worker.sync import node_sync as nodes

FULL_LOCATION_MESSAGE = "This location is full at the moment."


def fill_location(cast):
    cast.node.memory_overcommit = 0.0
    session.commit()


def create_location(name="other"):
    location = hypervisors.create_group(name=name, display_name=name.capitalize(), country="DE")
    location.plan_groups = session.query(PlanGroup).all()
    node = hypervisors.create(location, name=f"{name}-node", driver="simulated", uri="simulated://", storage_path="/d")
    session.commit()
    nodes.probe(node.id)
    return location


def get_selected_locations(page):
    return html.fromstring(page).xpath("//input[@name='location_id'][@checked]/@value")


def test_full_location_is_marked(browser_as, cast):
    fill_location(cast)
    page = browser_as("owner").get("/instances/new").text
    assert page.count(FULL_LOCATION_MESSAGE) == 2  # at the card and in the summary
    assert "No plan is offered" not in page
    card = html.fromstring(page).xpath(f"//label[contains(@class, 'off')][contains(., '{FULL_LOCATION_MESSAGE}')]")
    assert len(card) == 1


def test_full_location_is_not_preselected(browser_as, cast):
    other = create_location("zeta")
    assert get_selected_locations(browser_as("owner").get("/instances/new").text) == [cast.location.id]
    fill_location(cast)
    assert get_selected_locations(browser_as("owner").get("/instances/new").text) == [other.id]
    sent = {"location_id": cast.location.id, "preview": "1"}
    assert get_selected_locations(browser_as("owner").post("/instances/new", data=sent).text) == [cast.location.id]


def test_location_without_plans_is_not_full(rolled_back_app, cast):
    cast.location.plan_groups = []
    fill_location(cast)
    assert placement.find_full_locations([cast.location]) == set()


def test_full_location_check_has_constant_query_count(rolled_back_app, cast, queries):
    queries.clear()
    placement.find_full_locations(session.query(HypervisorGroup).all())
    one = len(queries)
    for number in range(5):
        create_location(f"more{number}")
    groups = session.query(HypervisorGroup).all()
    queries.clear()
    placement.find_full_locations(groups)
    assert len(queries) <= one + 1
